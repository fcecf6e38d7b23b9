// Buttons that copy the lines beside them. The clipboard needs HTTPS; without it the lines are selected instead.
for (const button of document.querySelectorAll("[data-copy]")) {
  const lines = button.previousElementSibling, name = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(lines);
    try {
      await navigator.clipboard.writeText(lines.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = name; }, 3000);
  });
}
