// A page of figures and tables only.
import { poll } from "./poll.js";
import { refresh } from "./refresh.js";

poll(document.body.dataset.json, refresh);
