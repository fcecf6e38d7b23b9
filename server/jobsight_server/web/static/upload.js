// Reports that a file is too large before it is sent: the server would close the connection in the middle of it.
const file = document.querySelector("input[type=file][data-limit]");

file.addEventListener("change", () => {
  const long = [...file.files].some((one) => one.size > Number(file.dataset.limit));
  file.setCustomValidity(long ? "This file is larger than the server accepts: send a part of it, or compress it." : "");
  file.reportValidity();
});
