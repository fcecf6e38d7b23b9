"""What became of a run and what it used of its request, in one sentence: for its page, ``seff`` and the API."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.queries.job_detail import RunDetail, RunEfficiency
from jobsight_server.web.kit.units import bound_value, duration, resource_value

BARS = ("memory", "processors", "gpus", "runtime")
"""Resources in the order of the sentence and of the bars of a job's page."""

_LEADS = {
    "running": "Running for",
    "requeued": "Requeued after",
    "completed": "Completed in",
    "failed": "Failed after",
    "cancelled": "Cancelled after",
    "killed: memory": "Ran out of memory and was killed after",
    "ended": "Ended after",
}


def verdict(run: RunDetail | RunEfficiency) -> str:
    """Return one sentence about the run: how it ended, and its use of its request."""
    of = {entry.resource: entry for entry in run.efficiency}
    time, asked = of["runtime"], [of[name] for name in BARS[:-1] if name in of]
    if run.outcome == "waiting":
        wanted = [_whole(entry, entry.requested) for entry in asked if entry.requested]
        limit = f" for up to {duration(time.requested)}" if time.requested else ""
        return f"Waiting for {_listed(wanted)}{limit}." if wanted else f"Waiting to run{limit}."
    so_far = " so far" if run.outcome == "running" else ""
    known = [of_request(entry) for entry in asked if entry.used is not None]
    unknown = [_NAMES[entry.resource] for entry in asked if entry.used is None and not (so_far and known)]
    used = f"used {_listed(known)}{so_far}" if known else ""
    missing = f"its {_listed(unknown)} use is unknown" if unknown else ""
    return f"{_lead(run, time)}; {'; '.join(filter(None, (used, missing)))}."


def of_request(entry: Efficiency) -> str:
    """Return the use of a request, such as ``83 of 109 GiB``; ``entry.used`` is known, and a run time exact."""
    at_least = entry.at_least and entry.resource != "runtime"
    value = bound_value(entry.used, entry.resource) if at_least else amount(entry.used, entry.resource)
    used = f"{'at least ' if at_least else ''}{_short(value)}"
    if not entry.requested:
        return f"{used}{_noun(entry, entry.used)}"
    asked = _whole(entry, entry.requested)
    number, _, unit = used.rpartition(" ")
    shares_unit = asked.endswith(f" {unit}") and entry.resource != "runtime"
    return f"{number if shares_unit else used} of {asked}"


def _whole(entry: Efficiency, value: float | None) -> str:
    """Return an amount as people write it: without zeros after the point, with its unit."""
    return f"{_short(amount(value, entry.resource))}{_noun(entry, value)}"


def amount(value: float | None, of: str) -> str:
    """Return an amount of a resource; a run time as it was, not rounded up like a limit."""
    return duration(value) if of == "runtime" else resource_value(value, of)


_NAMES = {"memory": "memory", "processors": "processor", "gpus": "GPU"}


def _lead(run: RunDetail | RunEfficiency, time: Efficiency) -> str:
    if run.outcome == "killed: time":
        return f"Killed at its time limit of {duration(time.requested or time.used)}"
    lead = _LEADS[run.outcome]
    if run.outcome == "failed" and run.exit_status is not None:
        lead = f"Failed with exit status {run.exit_status} after"
    return f"{lead} {of_request(time)}" if time.used is not None else lead.rpartition(" ")[0]


def _short(amount: str) -> str:
    return re.sub(r"\.0+(?=\D|$)|(\.[0-9]*?[1-9])0+(?=\D|$)", r"\1", amount)


def _noun(entry: Efficiency, value: float | None) -> str:
    return f" {_NAMES[entry.resource]}{'' if value == 1 else 's'}" if entry.resource in ("processors", "gpus") else ""


def _listed(texts: Sequence[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last
