// A simulation under way: shows its progress, and reloads the page when its state changes.
import { fill } from "./bind.js";
import { poll } from "./poll.js";

const run = document.getElementById("run");

poll(document.body.dataset.json, (data) => {
  if (data.state !== run.dataset.state) {
    location.reload();
    return;
  }
  run.querySelector("progress").value = data.progress;
  fill(run, data);
});
