// Brings a page up to date with its JSON: figures and rows in place. Where rows appeared or disappeared, the table is
// replaced by that of the page as the server renders it now.
import { fill, fillRows } from "./bind.js";
import { isLocal, showTimes } from "./clock.js";
import { Refused } from "./poll.js";

export async function refresh(data) {
  const main = document.getElementById("main");
  fill(main, data);
  if (!fillRows(main, data)) await replaceTables(main);
}

async function asItIsNow() {
  const url = location.href;
  const answer = await fetch(url, { headers: { Accept: "text/html" }, cache: "no-store", redirect: "error" });
  if (!answer.ok) throw new Refused(answer.status);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Replaces these parts of the page, by their ids.
export async function replaceParts(ids) {
  const page = await asItIsNow();
  for (const id of ids) {
    const fresh = page.getElementById(id);
    if (fresh !== null && isLocal()) showTimes(fresh);
    replace(document.getElementById(id), fresh ?? undefined);
  }
}

async function replaceTables(main) {
  const page = await asItIsNow();
  for (const name of new Set([...main.querySelectorAll("[data-rows]")].map((body) => body.dataset.rows))) {
    // Several tables may show the same rows: they have the same order on both pages.
    const here = `[data-rows="${CSS.escape(name)}"]`, fresh = [...page.querySelectorAll(here)];
    [...main.querySelectorAll(here)].forEach((old, i) => replace(old, fresh[i]));
  }
}

function replace(old, fresh) {
  if (fresh !== undefined) {
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    for (const open of old.querySelectorAll("details[open][data-open]")) {
      fresh.querySelector(`[data-open="${CSS.escape(open.dataset.open)}"]`)?.setAttribute("open", "");
    }
    old.replaceWith(document.adoptNode(fresh));
    if (focused !== null) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}
