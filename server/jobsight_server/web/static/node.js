// One node over time.
import { NodePlots, look } from "./nodeplots.js";
import { poll } from "./poll.js";
import { refresh } from "./refresh.js";

const plots = new NodePlots(document);
const [IN, OUT] = ["in", "out"].map((name, i) => ({ name, ...look(i) }));

plots.addKeys(document.querySelector("[data-kind=bandwidth] .keys"), [IN, OUT]);

poll(document.body.dataset.json, async (data) => {
  const { series } = data, curve = (line, values) => ({ line, times: series.time, values });
  plots.show((kind) => (kind === "bandwidth"
    ? [curve(IN, series.in_bps), curve(OUT, series.out_bps)]
    : [curve({ name: data.name, ...look(0) }, series[kind])]));
  await refresh(data);
});
