// Brings a page up to date with its JSON twin: figures and rows in place; where rows came or went, that table is taken
// anew from the page as the server writes it now.
import { fill, fillRows } from "./bind.js";

export async function refresh(data) {
  const main = document.getElementById("main");
  fill(main, data);
  if (!fillRows(main, data)) await replaceTables(main);
}

async function replaceTables(main) {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", redirect: "error" });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of main.querySelectorAll("[data-rows]")) {
    const fresh = page.querySelector(`[data-rows="${CSS.escape(old.dataset.rows)}"]`);
    if (fresh === null) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    old.replaceWith(document.adoptNode(fresh));
    if (focused !== null) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}
