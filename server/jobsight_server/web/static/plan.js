// The plan as a Gantt chart: nodes from top to bottom, time from left to right, drawn with attributes only.
import { format } from "./format.js";
import { poll } from "./poll.js";
import { refresh } from "./refresh.js";

const SVG = "http://www.w3.org/2000/svg", LEFT = 44, BOTTOM = 22, TOP = 4, RIGHT = 8;
const STEPS_S = [300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];
const frame = document.querySelector("#gantt .drawing"), readout = document.getElementById("gantt-readout");
let last = null;

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// From now, or a little before, to the end of the last job listed; two hours where there is none.
function span(data) {
  const ends = data.jobs.map((job) => job.latest_end), starts = data.jobs.map((job) => job.started ?? data.now);
  const first = Math.min(data.now, ...starts), end = Math.max(data.now + 7200, ...ends);
  return { first: first - (end - first) * 0.01, end: end + (end - first) * 0.02 };
}

// Classes of the legend: below 80, 90 and 95 %, and from there on.
const step = (pos) => (pos < 0.8 ? 0 : pos < 0.9 ? 1 : pos < 0.95 ? 2 : 3);

function saidOfJob(job) {
  const who = [job.user, job.application].filter((name) => name).join(", ");
  const pos = job.pos_now === null ? "" : `, now ${format("share", job.pos_now)}`;
  return `Offer ${job.id} (${job.state}): ${who}, ${format("count", job.nodes)} nodes for ${format("seconds", job.requested_s)}; ` +
    `starts ${format("day", job.earliest_start)} to ${format("day", job.latest_start)}, ends by ${format("day", job.latest_end)}; ` +
    `PoS ${format("share", job.pos)}${pos}; PoS × charge ${format("decimal", job.expected_charge_h)} h, PoF × penalty ${format("decimal", job.expected_penalty_h)} h`;
}

function pointed(element, text) {
  add(element, "title", {}, text);
  element.addEventListener("pointerenter", () => { readout.textContent = text; });
}

function draw(data) {
  const width = Math.max(frame.clientWidth, 280), high = Math.min(Math.max(data.nodes * 16, 140), 480);
  const { first, end } = span(data);
  const x = (time) => LEFT + ((Math.min(Math.max(time, first), end) - first) / (end - first)) * (width - LEFT - RIGHT);
  const y = (node) => TOP + (node / data.nodes) * high;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${high + TOP + BOTTOM}`);
  svg.setAttribute("height", high + TOP + BOTTOM);
  add(svg, "rect", { class: "ground", x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: high });
  axes(svg, data, { first, end, width, high, x, y });
  for (const job of data.jobs) drawJob(svg, job, data.now, x, y);
  add(svg, "line", { class: "now", x1: x(data.now), x2: x(data.now), y1: TOP, y2: TOP + high });
  frame.replaceChildren(svg);
}

function drawJob(svg, job, now, x, y) {
  const begins = job.started ?? job.latest_start, text = saidOfJob(job);
  for (const [from, to] of job.places) {
    const top = y(from), bottom = y(to + 1), middle = (top + bottom) / 2;
    if (job.started === null && job.earliest_start !== null && job.earliest_start < begins) {
      const low = bottom - Math.min(3, (bottom - top) / 2);  // below the names of the jobs that it crosses
      add(svg, "line", { class: "early", x1: x(job.earliest_start), x2: x(begins), y1: low, y2: low });
    }
    const drawn = box(svg, `job ${job.state} s${step(job.pos_now ?? job.pos)}`, x(begins), top, x(job.latest_end), bottom, text);
    const room = x(job.latest_end) - x(begins);
    if (room > 70 && bottom - top > 11) {
      const name = job.user ?? `offer ${job.id}`, most = Math.floor(room / 7);
      add(svg, "text", { class: "of", x: x(begins) + 4, y: middle + 3.5 }, name.length > most ? `${name.slice(0, most - 1)}…` : name);
    }
    drawn.dataset.offer = job.id;
  }
}

function box(svg, kind, left, top, right, bottom, text) {
  const gap = bottom - top > 4 ? 0.75 : 0;
  const rect = add(svg, "rect", { class: kind, x: left, y: top + gap, width: Math.max(right - left - 0.5, 1), height: Math.max(bottom - top - 2 * gap, 0.5) });
  pointed(rect, text);
  return rect;
}

function axes(svg, data, { first, end, width, high, x, y }) {
  const most = Math.max(2, Math.floor((width - LEFT) / 110));
  const every = STEPS_S.find((seconds) => (end - first) / seconds <= most) ?? STEPS_S.at(-1);
  for (let time = Math.ceil(first / every) * every; time < end; time += every) {
    add(svg, "line", { class: "grid", x1: x(time), x2: x(time), y1: TOP, y2: TOP + high });
    add(svg, "text", { class: "tick", x: x(time), y: TOP + high + 15, "text-anchor": x(time) > width - 50 ? "end" : "middle" }, format("day", time).slice(5));
  }
  const rows = Math.max(1, Math.ceil(data.nodes / Math.floor(high / 22)));
  for (let node = 0; node < data.nodes; node += rows) {
    add(svg, "text", { class: "tick", x: LEFT - 6, y: y(node) + 11, "text-anchor": "end" }, format("count", node));
  }
}

if (frame !== null) {
  new ResizeObserver(() => { if (last !== null) draw(last); }).observe(frame);
}

poll(document.body.dataset.json, async (data) => {
  last = data;
  if (frame !== null) draw(data);
  await refresh(data);
});
