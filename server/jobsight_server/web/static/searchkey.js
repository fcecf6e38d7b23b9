// The key `/` goes to the search field at the top of every page; not while typing.
const TYPING = "input, textarea, select, [contenteditable]";
const field = document.querySelector("#find input[type=search]");

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (!field || event.defaultPrevented || event.target.closest?.(TYPING)) return;
  event.preventDefault(); // the slash itself is not searched for
  field.focus();
  field.select();
});
