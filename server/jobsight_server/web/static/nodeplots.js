// Bandwidth, memory and CPU of one or several nodes over time, one chart each.
import { Chart, dressKey } from "./chart.js";

const PALETTE = 8;

export const look = (i) => ({ colour: `--line-${i % PALETTE}`, dash: Math.floor(i / PALETTE) % 4 });

// Where one direction is missing, so is the larger of the two.
export const larger = (a, b) => a.map((value, i) => (value == null || b[i] == null ? null : Math.max(value, b[i])));

export class NodePlots {
  // `marks`: [{name, at}], times to mark in every chart.
  constructor(root, marks = []) {
    this.charts = [...root.querySelectorAll(".plot[data-kind]")].map((plot) => [plot.dataset.kind, new Chart(plot, plot.dataset.format, marks)]);
  }

  // `curves(kind)`: [{line: {name, colour, dash}, times, values}] of the chart of that kind.
  show(curves) {
    for (const [kind, chart] of this.charts) {
      const found = curves(kind).filter(({ times }) => times.length > 0);
      if (found.length > 0) chart.show(found.map(({ line }) => line), uPlot.join(found.map(({ times, values }) => [times, values])), true);
    }
  }

  // A button per line in `box`, which shows or hides that line in every chart.
  addKeys(box, lines) {
    for (const line of lines) {
      const button = document.createElement("button"), name = document.createElement("span");
      button.type = "button";
      button.className = "key";
      button.setAttribute("aria-pressed", "true");
      name.className = "name";
      name.textContent = line.name;
      button.append(name);
      dressKey(button, line, (on) => this.toggle(line.name, on));
      box.append(button);
    }
  }

  toggle(name, on) {
    for (const [, chart] of this.charts) chart.toggle(name, on);
  }
}
