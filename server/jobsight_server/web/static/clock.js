// Times in UTC, as the server writes them, or of this browser's clock; the choice stays in the browser.
const KEY = "jobsight-clock";

function stored() {
  try {
    return localStorage.getItem(KEY) === "local";
  } catch {
    return false; // a browser that keeps nothing shows UTC
  }
}

let local = stored();

export const isLocal = () => local;

const two = (number) => String(number).padStart(2, "0");

// A time (Date) as year-month-day and time; `length` as of an ISO text.
export function written(moment, length) {
  if (!local) return moment.toISOString().slice(0, length).replace("T", " ");
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`.slice(0, length);
}

// Rewrites the times below an element; a date without a time stays a UTC day.
export function showTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.getAttribute("datetime"));
    if (!Number.isNaN(moment.getTime())) element.textContent = written(moment, element.textContent.trim().length);
  }
}

function use(button) {
  button.textContent = local ? "Local time" : "UTC";
  button.setAttribute("aria-pressed", String(local));
  for (const word of document.querySelectorAll("[data-clock]")) word.textContent = local ? "local" : "UTC";
}

const button = document.getElementById("clock");
if (button !== null) {
  button.hidden = false;
  use(button);
  if (local) showTimes(document);
  button.addEventListener("click", () => {
    local = !local;
    try {
      localStorage.setItem(KEY, local ? "local" : "utc");
    } catch {
      // then only until this page is left
    }
    use(button);
    showTimes(document);
  });
}
