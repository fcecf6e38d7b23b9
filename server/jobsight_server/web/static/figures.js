// The figures of a chart as a table below it, made when it is opened.
import { format } from "./format.js";

function cell(name, text, className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (name === "th") element.scope = "col";
  if (className) element.className = className;
  return element;
}

function moment(seconds) {
  const box = document.createElement("td"), time = document.createElement("time");
  time.dateTime = new Date(Math.floor(seconds) * 1000).toISOString();
  time.textContent = format("utc", seconds);
  box.append(time);
  return box;
}

function jobLink({ name, href }) {
  const head = document.createElement("th"), link = document.createElement("a");
  head.scope = "row";
  Object.assign(link, { className: "name", href, textContent: name, title: name });
  head.append(link);
  return head;
}

export function figures(details, unit) {
  const box = details.querySelector(".scroll");
  let shown = null;

  function fill() {
    if (shown === null || !details.open) return;
    const { lines, data, links } = shown, table = document.createElement("table"), focused = document.activeElement?.getAttribute("href");
    table.className = "tight";
    const heads = table.createTHead().insertRow(), body = table.createTBody();
    heads.append(...(links === null ? [cell("th", "Time")] : [cell("th", "Job"), cell("th", "End")]), ...lines.map(({ name }) => cell("th", name, "num")));
    for (let i = data[0].length - 1; i >= 0; i -= 1) {
      body.insertRow().append(
        ...(links === null ? [moment(data[0][i])] : [jobLink(links[i]), moment(links[i].time)]),
        ...lines.map((_, line) => cell("td", format(unit, data[line + 1][i]), "num")),
      );
    }
    const { scrollTop } = box, within = box.contains(document.activeElement);
    box.replaceChildren(table);
    box.scrollTop = scrollTop;
    if (within && focused) box.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  details.addEventListener("toggle", fill);
  return { show(lines, data, links) { shown = { lines, data, links }; fill(); } };
}
