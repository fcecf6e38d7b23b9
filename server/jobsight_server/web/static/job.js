// One job: its nodes over the life of each of its runs, a line per node.
import "./copy.js";
import { NodePlots, larger, look } from "./nodeplots.js";
import { fill } from "./bind.js";
import { once, poll } from "./poll.js";
import { replaceParts } from "./refresh.js";

const runs = new Map();
const REQUESTED = { own_memory: "memory", own_cpu: "processors", memory_used_bytes: "memory" };
const OWN = { own_memory: "memory_bytes", own_cpu: "busy_processors" };
const [SUM, REQUEST] = [{ name: "sum", colour: "--ink", dash: 0, width: 2 }, { name: "request", colour: "--ink-soft", dash: 1, width: 2 }];
const VERDICT_S = 60; // age of a running job's verdict until it is replaced

// What is drawn of a node in the chart of this kind: {times, values}; null without it.
function readings(kind, { own, series }) {
  if (kind in OWN) return own === null ? null : { times: own.time, values: own[OWN[kind]] };
  if (series === null) return null;
  return { times: series.time, values: kind === "bandwidth" ? larger(series.in_bps, series.out_bps) : series[kind] };
}

// The sum over the nodes: at each time of the last reading of each, unknown where one is.
function total(times, found) {
  const at = found.map(() => -1);
  return times.map((time) => found.reduce((sum, curve, i) => {
    while (curve.times[at[i] + 1] <= time) at[i] += 1;
    const value = curve.values[at[i]];
    return sum === null || value == null ? null : sum + value;
  }, 0));
}

// Each node, their sum where it is an amount, and the job's request as a level line.
function curves(kind, run, nodes, lines) {
  const found = nodes.map((node, i) => ({ line: lines[i], ...readings(kind, node) })).filter(({ times }) => times?.length > 0);
  if (kind === "cpu_utilisation") return found;
  const times = [...new Set(found.flatMap((curve) => curve.times))].sort((a, b) => a - b);
  const request = run.efficiency.find(({ resource }) => resource === REQUESTED[kind])?.requested;
  if (found.length > 1) found.push({ line: SUM, times, values: total(times, found) });
  if (request != null) found.push({ line: REQUEST, times, values: times.map(() => request) });
  return found;
}

function marks(box) {
  if (box === null) return [];
  const { start, end, endName } = box.dataset;
  return [["start", start], [endName, end]].filter(([, at]) => at !== undefined).map(([name, at]) => ({ name, at: Number(at) }));
}

function draw(data) {
  data.runs.forEach((run, number) => {
    const section = document.querySelector(`[data-run="${number}"]`);
    const nodes = run.nodes.filter((node) => node.series !== null || node.own !== null);
    if (section === null || nodes.length === 0 || section.querySelector(".chart") === null) return;
    const lines = nodes.map((node, i) => ({ name: node.node, ...look(i) }));
    if (!runs.has(number)) {
      runs.set(number, new NodePlots(section, marks(section.querySelector(".own"))));
      runs.get(number).addKeys(section.querySelector(".keys"), [...lines, ...(nodes.length > 1 ? [SUM] : []), REQUEST]);
    }
    runs.get(number).show((kind) => curves(kind, run, nodes, lines));
  });
}

const shown = JSON.stringify([...document.querySelectorAll(".run")].map((run) => run.querySelector(".state").textContent));

// A job that has ended and been profiled no longer changes; until then, its page is reloaded when a run changes.
if (document.querySelector("[data-settled]") !== null) once(document.body.dataset.json, draw);
else {
  let before = null, judgedAt = null;
  poll(document.body.dataset.json, async (data) => {
    const state = JSON.stringify(data.runs.map((run) => [run.outcome, run.profiled, run.end, run.over_bound]));
    if ((before !== null && before !== state) || JSON.stringify(data.runs.map((run) => run.outcome)) !== shown) location.reload();
    before = state;
    fill(document.getElementById("main"), data);
    draw(data);
    judgedAt ??= data.now;
    if (data.now - judgedAt < VERDICT_S) return;
    judgedAt = data.now;
    await replaceParts(["verdict"]);
  });
}
