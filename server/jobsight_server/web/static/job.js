// One job: its nodes over the life of each of its runs, a line per node.
import "./copy.js";
import { NodePlots, larger, look } from "./nodeplots.js";
import { fill } from "./bind.js";
import { once, poll } from "./poll.js";

const runs = new Map();
const OWN = { own_memory: "memory_bytes", own_cpu: "busy_processors" };

// The job's own readings on each node that has them.
const own = (kind, nodes, lines) => nodes.flatMap((node, i) => (node.own === null ? [] : [{ line: lines[i], times: node.own.time, values: node.own[OWN[kind]] }]));

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
      const keys = section.querySelector(".keys"); // not where users see their own readings alone
      if (keys !== null) runs.get(number).addKeys(keys, lines);
    }
    runs.get(number).show((kind) => (kind in OWN ? own(kind, nodes, lines) : nodes.flatMap(({ series }, i) => (series === null ? [] : [{
      line: lines[i],
      times: series.time,
      values: kind === "bandwidth" ? larger(series.in_bps, series.out_bps) : series[kind],
    }]))));
  });
}

const shown = JSON.stringify([...document.querySelectorAll(".run")].map((run) => run.querySelector(".state").textContent));

// A job that has ended and been profiled no longer changes; until then, its page is reloaded when a run changes.
if (document.querySelector("[data-settled]") !== null) once(document.body.dataset.json, draw);
else {
  let before = null;
  poll(document.body.dataset.json, (data) => {
    const state = JSON.stringify(data.runs.map((run) => [run.outcome, run.profiled, run.end, run.over_bound]));
    if ((before !== null && before !== state) || JSON.stringify(data.runs.map((run) => run.outcome)) !== shown) location.reload();
    before = state;
    fill(document.getElementById("main"), data);
    draw(data);
  });
}
