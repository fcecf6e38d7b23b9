// The key `/` goes to the page's search field, or to the list of jobs where a page has none; not while typing.
const TYPING = "input, textarea, select, [contenteditable]";
const fieldHere = () => document.querySelector('main input[type="search"]');

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.defaultPrevented || event.target.closest?.(TYPING)) return;
  const field = fieldHere();
  const jobs = document.querySelector('header a[data-search]');
  if (field === null && jobs === null) return;
  event.preventDefault(); // the slash itself is not searched for
  if (field === null) {
    location.assign(`${jobs.href}#search`);
    return;
  }
  field.focus();
  field.select();
});

if (location.hash === "#search") fieldHere()?.focus();
