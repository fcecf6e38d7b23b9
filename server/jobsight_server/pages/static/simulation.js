// A simulation under way: its progress, until it is something else than it was; then the page is taken anew.
import { fill } from "./bind.js";
import { poll } from "./poll.js";

const run = document.getElementById("run");

poll(document.body.dataset.twin, (data) => {
  if (data.state !== run.dataset.state) {
    location.reload();
    return;
  }
  run.querySelector("progress").value = data.progress;
  fill(run, data);
});
