"""One question, asked on every surface that answers it."""

from __future__ import annotations

from typing import Any

from tests import make

MIB = 2**20
Answer = tuple[float | None, float | None]
"""Memory and run time to request, of the whole job."""


def by_surface(site: Any, job: dict[str, Any]) -> dict[str, Answer]:
    """What each surface would have the job request."""
    client, count = site.client("scheduler"), job.get("processors", 1)
    asked = job.get("memory_bytes"), job.get("walltime_s")
    advice = make.answered(client.post("/api/v1/advice", json=job | {"sets_memory": False}))
    reserve = {entry["metric"]: entry["reserve"] for entry in advice["forecasts"]}
    found: dict[str, Answer] = {"advice": (reserve["memory"], reserve["runtime"])}

    def of_predictions(answer: Any) -> Answer:
        memory, runtime = ({one["metric"]: one for one in answer}[metric] for metric in ("memory", "runtime"))
        for one in (memory, runtime):
            assert one["attempts"][0] == one["bound"]
        return memory["bound"] * (count if memory["per"] == "processor" else 1), runtime["bound"]

    for per in ("processor", "job") if "processors" in job else ("processor",):
        sent = {name: f"{value:g}" if isinstance(value, float) else value for name, value in job.items()} | {"per": per}
        got = make.answered(client.get("/api/v1/predictions", query_string=sent))["predictions"]
        found[f"GET predictions per {per}"] = of_predictions(got)
        posted = make.answered(client.post("/api/v1/predictions", json={"questions": [job | {"per": per}]}))
        assert posted["predictions"] == got
    if "gpus" not in job and job.keys() & {"application", "processors"}:  # a question of the page has none
        sent = {name: f"{value:g}" if isinstance(value, float) else value for name, value in job.items()}
        sent["name"] = sent.pop("user")
        next_job = make.answered(client.get("/api/v1/user", query_string=sent))["next_job"]
        assert next_job["text"] == advice["text"]
        found["page of the user"] = of_predictions(next_job["forecasts"])
    plain = {name: value for name, value in job.items() if name not in ("processors", "memory_bytes", "walltime_s")}
    slurm = {"num_tasks": count, "nodes": 1} | ({"mem": f"{asked[0] // MIB}M"} if asked[0] else {})
    slurm |= {"time_limit": int(asked[1] // 60)} if asked[1] else {}
    pbs = {"ncpus": str(count)} | ({"mem": f"{asked[0] // MIB}mb"} if asked[0] else {})
    pbs |= {"walltime": f"{asked[1] // 3600:.0f}:00:00"} if asked[1] else {}
    for name, words in (("slurm", slurm), ("pbs", pbs)) if "processors" in job else ():
        of = make.answered(client.post("/api/v1/advice", json=plain | {name: words, "sets_memory": False}))
        assert of["text"].replace("mb", "M").replace("gb", "G") == advice["text"]
        found[name] = tuple({one["metric"]: one["reserve"] for one in of["forecasts"]}[metric] for metric in reserve
                            if metric in ("memory", "runtime"))  # fmt: skip
        memory, limit = (of[name]["mem"], of[name]["time_limit" if name == "slurm" else "walltime"])
        if memory is not None:
            assert int(str(memory).removesuffix("mb")) * MIB == found[name][0], "what a script sets"
        assert limit is None or asked[1] is None, "no limit is shortened, nor one lengthened without a kill"
    return found
