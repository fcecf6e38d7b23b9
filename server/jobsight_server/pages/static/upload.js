// Says that a file is too long before it is sent: the server would hang up in the middle of it.
const file = document.querySelector("input[type=file][data-limit]");

file.addEventListener("change", () => {
  const long = [...file.files].some((one) => one.size > Number(file.dataset.limit));
  file.setCustomValidity(long ? "This file is longer than the server takes: send a part of it, or compress it." : "");
  file.reportValidity();
});
