// Writes the values of a page's JSON into the page, always as text, never as markup.
import { format } from "./format.js";
import { bars, split } from "./spark.js";

const lookup = (data, path) => path.split(".").reduce((at, key) => (at == null ? undefined : at[key]), data);

// Fills every [data-bind] under `root` that is not in a table of rows of its own.
export function fill(root, data) {
  for (const element of root.querySelectorAll("[data-bind]")) {
    if (element.closest("[data-rows]") === null) show(element, lookup(data, element.dataset.bind));
  }
  for (const svg of root.querySelectorAll("svg[data-spark]")) bars(svg, lookup(data, svg.dataset.spark) ?? []);
  for (const svg of root.querySelectorAll("svg[data-split]")) {
    split(svg, svg.dataset.split.split(",").map((path) => lookup(data, path) ?? 0));
  }
  for (const figure of root.querySelectorAll("[data-warn-figure]")) {
    figure.classList.toggle("attention", Number(data.rejected_total) > 0);
  }
}

// Fills the rows of each table; returns false if the JSON has other rows than the page, or in another order.
export function fillRows(root, data) {
  let same = true;
  for (const body of root.querySelectorAll("[data-rows]")) {
    const keys = body.dataset.key.split(","), list = lookup(data, body.dataset.rows) ?? [];
    const rows = [...body.querySelectorAll("tr[data-row]")];
    const matches = rows.length === list.length && rows.every((row, i) => {
      const shown = JSON.parse(row.dataset.row);
      return keys.every((key, k) => JSON.stringify(shown[k]) === JSON.stringify(list[i][key]));
    });
    if (!matches) {
      same = false;
      continue;
    }
    rows.forEach((row, i) => {
      for (const cell of row.querySelectorAll("[data-bind]")) show(cell, lookup(list[i], cell.dataset.bind), list[i]);
    });
  }
  return same;
}

// `data-warn` marks a value above 0; if it names a number of the row, only from a hundredth of that on.
function show(element, value, row) {
  if (element.dataset.format === "state") {
    const badge = element.querySelector(".state");
    if (badge.textContent !== value) {
      badge.textContent = value;
      badge.className = "state";
      badge.classList.add(value);
    }
    return;
  }
  if (element.dataset.times && typeof value === "number") value *= Number(element.dataset.times);
  const text = format(element.dataset.format, value ?? ("zero" in element.dataset ? 0 : null));
  if (element.textContent !== text) element.textContent = text;
  if ("warn" in element.dataset) {
    const of = element.dataset.warn === "" ? 0 : lookup(row, element.dataset.warn) ?? 0;
    element.classList.toggle("warn", Boolean(value) && value * 100 >= of);
  }
}
