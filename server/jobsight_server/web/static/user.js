// One user: each job's use, its forecast and its reservation at submission, and the published five on request.
import { Chart, dressKey } from "./chart.js";
import { showCopy } from "./copy.js";
import { poll, once } from "./poll.js";
import { replaceParts } from "./refresh.js";

const LOOKS = {
  used: { colour: "--actual", points: true, width: 1.5 },
  forecast: { colour: "--accent", width: 2 },
  reserved: { colour: "--good", dash: 1, over: "forecast" },
  history: { colour: "--history" },
  "sliding-window": { colour: "--sliding-window", dash: 1 },
  weighted: { colour: "--weighted", dash: 3 },
  locality: { colour: "--locality", dash: 2 },
  exponential: { colour: "--exponential" },
};
const COLUMN = { used: "actual", forecast: "answered", reserved: "bound" };
const AGAIN_MS = 60000;

const box = document.getElementById("charts"), { cluster } = box.dataset;
const plots = [...box.querySelectorAll(".plot[data-metric]")].filter((plot) => plot.querySelector(".chart") !== null).map((plot) => {
  const chart = new Chart(plot, plot.dataset.format), keys = [...plot.querySelectorAll(".key")];
  for (const button of keys) dressKey(button, LOOKS[button.dataset.series], (on) => chart.toggle(button.dataset.series, on));
  const lines = keys.map(({ dataset: { series: name } }) => ({ name, ...LOOKS[name] }));
  return { chart, lines, metric: plot.dataset.metric, left: plot.querySelector(".left-out") };
});
let latest = null;

function draw() {
  if (latest === null) return;
  const byTime = document.querySelector("input[name=axis]:checked").value === "time";
  for (const { chart, lines, metric, left } of plots) {
    const history = latest.metrics[metric];
    if (history === undefined) continue;
    left.textContent = leftOut(history);
    if (history.actual.length === 0) continue;
    const order = history.time.map((_, i) => i);
    // Jobs are learned in the order of their profiles, which is not always that of their ends.
    if (byTime) order.sort((a, b) => history.time[a] - history.time[b]);
    const xs = order.map((i, place) => (byTime ? history.time[i] : place + 1));
    const ys = lines.map(({ name }) => {
      const column = history[COLUMN[name]] ?? history.forecasts[name];
      return order.map((i) => column[i]);
    });
    const links = order.map((i) => ({ name: history.job_id[i], time: history.time[i], href: `/job?${new URLSearchParams({ cluster, name: history.job_id[i] })}` }));
    chart.show(lines, [xs, ...ys], byTime, links);
  }
}

function leftOut({ actual, shown_only: shown, lower_bounds: bounds }) {
  const jobs = (n) => `${n} ${actual.length > 0 ? "more " : ""}job${n === 1 ? "" : "s"}`;
  return [
    ...(actual.length === 0 && shown === 0 ? ["No job of these days has a measured value."] : []),
    ...(bounds > 0 ? [`${jobs(bounds)} ran out of it, ended early or had parts that were not measured: the values are lower bounds of what such jobs need.`] : []),
    ...(shown > bounds ? [`${jobs(shown - bounds)} ran on shared nodes: the values apportioned to them are shown with each job but not learned.`] : []),
  ].join(" ");
}

const read = () => once(box.dataset.history, (data) => {
  latest = data;
  draw();
});

for (const choice of document.querySelectorAll("input[name=axis]")) choice.addEventListener("change", draw);
read();

// If jobs have arrived or ended since, figures and charts are read again, once a minute at most.
let known = null, readAt = -AGAIN_MS, waiting = false;

async function again() {
  [readAt, waiting] = [performance.now(), false];
  await replaceParts(["facts", "applications", "next"]);
  showCopy(document);
  await read();
}

poll(document.body.dataset.json, ({ jobs, last_end: lastEnd, metrics }) => {
  const before = known;
  known = JSON.stringify([jobs, lastEnd, metrics.map((answer) => answer.user_jobs)]);
  if (before === null || before === known || waiting) return;
  waiting = true;
  setTimeout(() => again().catch((error) => console.debug("again:", error)), Math.max(0, readAt + AGAIN_MS - performance.now()));
});
