// A line chart over uPlot with this site's colours, units and its own legend of buttons. By keyboard: arrow keys, Home
// and End go through the values. Points may be links, which a click and Enter open.
import { figures } from "./figures.js";
import { format } from "./format.js";

const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
const NEAR_PX = 12, DRAGGED_PX = 4;
const SVG = "http://www.w3.org/2000/svg";
const dark = matchMedia("(prefers-color-scheme: dark)");
const coarse = matchMedia("(max-width: 560px)");

// Steps between the marks of an axis, at round figures of the unit.
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];
const STEPS = { bytes: Array.from({ length: 56 }, (_, power) => 2 ** power), seconds: SECONDS };
const tickText = (unit, tick) => format(unit === "share" ? "percent" : unit, tick).replace(/(.) 0 (s|min|h)$/, "$1");

// Marks of a time axis: hours and minutes, and the date wherever the day changes; dates only for steps of days.
function clockMarks(ticks, step) {
  let day = "";
  return ticks.map((tick) => {
    const [date, clock] = format("day", tick).split(" "), fresh = date !== day;
    day = date;
    if (step >= 86400) return date.slice(5);
    return fresh ? `${clock}\n${date}` : clock;
  });
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// `lines`: [{name, colour: a custom property, dash, points, width, over: the line down to which the area is filled}];
// `data`: [xs, ys, ...]; `unit`: a name of format.js; `links`: for each x {name, href, time}, the points of the first line.
export class Chart {
  constructor(plot, unit, marks = []) {
    this.marks = marks;
    this.box = plot.querySelector(".chart");
    this.readout = plot.querySelector(".readout");
    this.unit = unit;
    this.hidden = new Set();
    this.lines = [];
    this.chart = null;
    this.links = null;
    this.figures = figures(plot.querySelector("details.figures"), unit);
    this.box.addEventListener("keydown", (event) => this.key(event));
    // In the capture phase: uPlot stops clicks.
    this.box.addEventListener("pointerdown", ({ clientX }) => { this.pressedAt = clientX; }, true);
    this.box.addEventListener("click", ({ clientX }) => this.click(clientX), true);
    new ResizeObserver(() => this.resize()).observe(this.box);
    dark.addEventListener("change", () => this.draw());
  }

  show(lines, data, time, links = null) {
    const same = this.chart !== null && this.time === time && JSON.stringify(this.lines) === JSON.stringify(lines);
    Object.assign(this, { lines, data, time, links });
    if (same) this.chart.setData(data);
    else this.draw();
    this.figures.show(lines, data, links);
  }

  toggle(name, on) {
    if (on) this.hidden.delete(name);
    else this.hidden.add(name);
    const at = this.lines.findIndex((line) => line.name === name);
    if (at >= 0 && this.chart !== null) this.chart.setSeries(at + 1, { show: on });
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (this.chart !== null && width > 0 && (this.chart.width !== width || this.chart.height !== height)) this.chart.setSize({ width, height });
  }

  draw() {
    if (this.chart !== null) this.chart.destroy();
    this.chart = null;
    if (!this.data) return;
    const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1, size: 4 }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 16, labelGap: 0 };
    const options = {
      width: this.box.clientWidth,
      height: this.box.clientHeight,
      legend: { show: false },
      padding: [8, 20, 0, 0],
      cursor: { points: { size: 6 }, focus: { prox: 24 }, drag: { x: true, y: false } },
      focus: { alpha: 0.35 },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { x: { time: this.time, ...(this.marks.length > 0 ? { range: (_, low, high) => this.around(low, high) } : {}) }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
      axes: [
        { ...axis, label: this.time ? "UTC" : "job, in the order of their ends", space: coarse.matches ? 60 : 70, size: this.time ? 38 : 26, values: this.time ? (_, ticks, at, space, step) => clockMarks(ticks, step) : (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? format("count", tick) : "")) },
        { ...axis, size: 70, ...(this.unit in STEPS ? { incrs: STEPS[this.unit] } : {}), values: (_, ticks) => ticks.map((tick) => tickText(this.unit, tick)) },
      ],
      series: [{}, ...this.lines.map((line) => ({
        label: line.name,
        show: !this.hidden.has(line.name),
        stroke: colour(line.colour),
        width: line.width ?? 1.25,
        dash: DASHES[line.dash ?? 0],
        points: line.points ? { show: true, size: 4, width: 1, fill: colour(line.colour) } : { show: false },
        spanGaps: false,
      }))],
      bands: this.lines.flatMap((line, i) => (line.over === undefined ? [] : [{ series: [i + 1, this.lines.findIndex(({ name }) => name === line.over) + 1], fill: colour("--band") }])),
      hooks: { setCursor: [(chart) => this.read(chart)], draw: [(chart) => this.mark(chart)] },
    };
    this.chart = new uPlot(options, this.data, this.box);
  }

  // The link of the point under the pointer; null without one.
  under() {
    const { chart, links } = this;
    if (chart === null || links === null) return null;
    const { idx: at, left, top } = chart.cursor, y = at == null ? null : this.data[1][at];
    if (y == null || Math.abs(chart.valToPos(this.data[0][at], "x") - left) > NEAR_PX || Math.abs(chart.valToPos(y, "y") - top) > NEAR_PX) return null;
    return links[at];
  }

  click(at) {
    const link = this.under(), isDragged = Math.abs(at - this.pressedAt) > DRAGGED_PX;
    if (link !== null && !isDragged) location.assign(link.href);
  }

  key(event) {
    const { chart } = this, last = (this.data?.[0].length ?? 0) - 1, at = chart?.cursor.idx;
    if (chart === null || last < 0) return;
    const step = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[event.key];
    if (step !== undefined) {
      const to = Math.max(0, Math.min(last, step)), y = this.data.slice(1).find((column) => column[to] != null)?.[to] ?? 0;
      chart.setCursor({ left: chart.valToPos(this.data[0][to], "x"), top: chart.valToPos(y, "y") });
    } else if (event.key === "Enter" && at != null && this.links !== null) location.assign(this.links[at].href);
    else return;
    event.preventDefault();
  }

  // All of a line and the marks, unless a part was chosen with the pointer.
  around(low, high) {
    const xs = this.data[0];
    if (low !== xs[0] || high !== xs[xs.length - 1]) return [low, high];
    const ends = [low, high, ...this.marks.map(({ at }) => at)], first = Math.min(...ends), last = Math.max(...ends);
    const margin = Math.max((last - first) * 0.02, 1);
    return [first - margin, last + margin];
  }

  // A dashed line with its name at each time to mark.
  mark(chart) {
    const { ctx, bbox: { left, top, width, height } } = chart, ratio = devicePixelRatio;
    ctx.save();
    Object.assign(ctx, { strokeStyle: colour("--ink-soft"), fillStyle: colour("--ink-soft"), lineWidth: ratio, font: `${11 * ratio}px system-ui, sans-serif`, textBaseline: "top" });
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    for (const { name, at } of this.marks) {
      const x = chart.valToPos(at, "x", true);
      if (x < left || x > left + width) continue;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
      const isLeft = x - left < width / 2;
      ctx.textAlign = isLeft ? "left" : "right";
      ctx.fillText(name, x + (isLeft ? 4 : -4) * ratio, top);
    }
    ctx.restore();
  }

  // The values under the pointer, as text below the chart.
  read(chart) {
    const at = chart.cursor.idx, parts = [];
    if (at == null || chart.cursor.left < 0) return void this.readout.replaceChildren();
    const link = this.links?.[at], head = document.createElement("b");
    head.textContent = link ? `${link.name}, ${format("utc", link.time)}` : format("utc", this.data[0][at]);
    this.box.classList.toggle("opens", this.under() !== null);
    this.lines.forEach((line, i) => {
      const value = this.data[i + 1][at];
      if (!this.hidden.has(line.name) && value != null) parts.push(`${line.name} ${format(this.unit, value)}`);
    });
    this.readout.replaceChildren(head, ` ${parts.slice(0, 8).join(" · ")}${parts.length > 8 ? ` · and ${parts.length - 8} more` : ""}`);
  }
}

// A button of the legend, with a sample of its line.
export function dressKey(button, line, pressed) {
  const sample = document.createElementNS(SVG, "svg"), stroke = document.createElementNS(SVG, "line");
  sample.setAttribute("viewBox", "0 0 18 8");
  sample.setAttribute("aria-hidden", "true");
  for (const [name, value] of Object.entries({ x1: 0, y1: 4, x2: 18, y2: 4, stroke: `var(${line.colour})`, "stroke-width": 2.5, "stroke-dasharray": DASHES[line.dash ?? 0].join(" ") })) stroke.setAttribute(name, value);
  sample.append(stroke);
  button.prepend(sample);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    pressed(on);
  });
}
