// The key `/` goes to the page's search field, or opens one for all names where a page has none; not while typing.
// The field is on this page: while another one loads, typed text would be lost.
const TYPING = "input, textarea, select, [contenteditable]";
const opened = document.querySelector("#find-job");

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.defaultPrevented || event.target.closest?.(TYPING)) return;
  const here = document.querySelector('main input[type="search"]');
  const field = here ?? opened?.querySelector('input[type="search"]');
  if (!field) return;
  event.preventDefault(); // the slash itself is not searched for
  if (here === null) opened.hidden = false;
  field.focus();
  field.select();
});

opened?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  opened.hidden = true;
  event.target.blur(); // a hidden field keeps the focus until the next frame, and the next `/` would go into it
});
