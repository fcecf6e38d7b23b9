// Polls the API for the page's data: every 3 s while the page is visible, every 60 s while it is hidden.
const VISIBLE_MS = 3000, HIDDEN_MS = 60000;

export class Refused extends Error {
  constructor(status) {
    super(status === 401 ? "logged out; reload to log in again" : `not updated: status ${status}`);
  }
}

export function poll(url, use) {
  let timer = 0, tag = null, asking = false;

  async function ask() {
    clearTimeout(timer);
    if (asking) return;
    asking = true;
    try {
      const headers = { Accept: "application/json", ...(tag === null ? {} : { "If-None-Match": tag }) };
      const answer = await fetch(url, { headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(20000) });
      if (answer.status !== 304) {
        if (!answer.ok) throw new Refused(answer.status);
        await use(await answer.json());
        tag = answer.headers.get("ETag");
      }
      say("live", false);
    } catch (error) {
      say(error instanceof Refused ? error.message : "no answer", true);
      console.debug("poll:", error);
    } finally {
      asking = false;
      timer = setTimeout(ask, document.hidden ? HIDDEN_MS : VISIBLE_MS);
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask();
  });
  return ask();
}

export async function once(url, use) {
  const answer = await fetch(url, { headers: { Accept: "application/json" }, redirect: "error" });
  if (answer.ok) await use(await answer.json());
  else say("no answer", true);
}

function say(text, stale) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("stale", stale);
  live.hidden = false;
}
