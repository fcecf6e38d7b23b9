// Buttons that copy the lines beside them. The clipboard needs HTTPS; without it the lines are selected instead.
export function showCopy(root) {
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button === null) return;
  const lines = button.previousElementSibling, name = button.dataset.copy ||= button.textContent;
  getSelection().selectAllChildren(lines);
  try {
    await navigator.clipboard.writeText(lines.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => { button.textContent = name; }, 3000);
});
showCopy(document);
