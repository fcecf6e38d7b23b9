// Small bars drawn with attributes only, which a strict content security policy allows.
const SVG = "http://www.w3.org/2000/svg";

function rects(svg, boxes) {
  while (svg.childElementCount > boxes.length) svg.lastElementChild.remove();
  while (svg.childElementCount < boxes.length) svg.append(document.createElementNS(SVG, "rect"));
  boxes.forEach((box, i) => {
    for (const [name, value] of Object.entries(box)) svg.children[i].setAttribute(name, value);
  });
}

export function bars(svg, values) {
  const { width, height } = svg.viewBox.baseVal, top = Math.max(...values, 1e-9), step = width / Math.max(values.length, 1);
  rects(svg, values.map((value, i) => {
    const tall = value > 0 ? Math.max(1.5, (value / top) * height) : 1;
    return { x: i * step, y: height - tall, width: step * 0.8, height: tall, class: value > 0 ? "" : "empty" };
  }));
}

export function split(svg, parts) {
  const { width, height } = svg.viewBox.baseVal, sum = parts.reduce((a, b) => a + b, 0) || 1;
  let x = 0;
  rects(svg, parts.map((part) => {
    const box = { x, y: 0, width: (part / sum) * width, height };
    x += box.width;
    return box;
  }));
}
