// One user: what each job really used, its forecast at submission, and the five single forecasts.
import { Chart, dressKey } from "./chart.js";
import { poll } from "./poll.js";
import { refresh } from "./refresh.js";

const LINES = {
  actual: { colour: "--actual", points: true, width: 1.5 },
  answered: { colour: "--accent", width: 2 },
  history: { colour: "--history" },
  "sliding-window": { colour: "--sliding-window", dash: 1 },
  weighted: { colour: "--weighted", dash: 3 },
  locality: { colour: "--locality", dash: 2 },
  exponential: { colour: "--exponential" },
};
const lines = Object.entries(LINES).map(([name, look]) => ({ name, ...look }));
const charts = new Map();
let latest = null;

for (const plot of document.querySelectorAll(".plot[data-metric]")) {
  if (plot.querySelector(".chart") === null) continue;
  const chart = new Chart(plot, plot.dataset.format);
  charts.set(plot.dataset.metric, chart);
  for (const button of plot.querySelectorAll(".key")) {
    dressKey(button, LINES[button.dataset.series], (on) => chart.toggle(button.dataset.series, on));
  }
}

function draw() {
  if (latest === null) return;
  const byTime = document.querySelector("input[name=axis]:checked").value === "time";
  for (const answer of latest.metrics) {
    const chart = charts.get(answer.metric), history = answer.history;
    if (chart === undefined || history.actual.length === 0) continue;
    const first = answer.user_jobs - history.actual.length + 1;
    const order = history.time.map((_, i) => i);
    // Jobs are learned in the order of their profiles, which is not always that of their ends.
    if (byTime) order.sort((a, b) => history.time[a] - history.time[b]);
    const xs = order.map((i) => (byTime ? history.time[i] : first + i));
    const ys = lines.map(({ name }) => {
      const column = history[name] ?? history.forecasts[name];
      return order.map((i) => column[i]);
    });
    chart.show(lines, [xs, ...ys], byTime);
  }
}

for (const choice of document.querySelectorAll("input[name=axis]")) choice.addEventListener("change", draw);
poll(document.body.dataset.json, async (data) => {
  latest = data;
  draw();
  await refresh(data);
});
