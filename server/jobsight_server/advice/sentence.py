"""One line of text for the person who submits a job."""

from __future__ import annotations

import math
from collections.abc import Callable

from jobsight_server.advice.recommendation import Recommendation
from jobsight_server.advice.such_jobs import SuchJobs
from jobsight_server.amounts import memory_text, time_text


def sentence(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """What to ask for, if anything else than this job does; what such jobs used, and what this one asks for.

    ``memory`` writes an amount of it.
    """
    such, request = found.such_jobs, found.request
    said = _used(such, memory)
    asked = []
    if such.memory_bytes is not None or found.memory_bytes is not None:
        asked.append("no amount of memory" if request.memory_bytes is None else memory(request.memory_bytes))
    if such.runtime_s is not None or found.runtime_s is not None:
        asked.append("no time limit" if request.walltime_s is None else time_text(request.walltime_s))
    said += f"; this one asks for {' and '.join(asked)}." if asked else "."
    return " ".join(part for part in (what_to_ask(found, memory), said) if part)


def what_to_ask(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """``Ask for 402M and 12 min: enough for 96 of 100 such jobs.``; empty if the job's own request is the best."""
    amounts = [
        write(value)
        for value, write in ((found.memory_bytes, memory), (found.runtime_s, time_text))
        if value is not None
    ]
    if not amounts:
        return ""
    source = "" if found.such_jobs.jobs else ", as your other jobs suggest"
    share = found.enough_share
    enough = "" if share is None else f": enough for {_of_100(share)} of 100 such jobs"
    return f"Ask for {' and '.join(amounts)}{source}{enough}."


def _of_100(share: float) -> str:
    return f"{min(99, math.floor(100.0 * share))}"


def pbs_memory_text(value: float) -> str:
    """Memory as PBS takes it.

    >>> pbs_memory_text(616 * 2**20), pbs_memory_text(64 * 2**30)
    ('616mb', '64gb')
    """
    return f"{memory_text(value).lower()}b"


def _used(such: SuchJobs, memory: Callable[[float], str]) -> str:
    if not such.jobs:
        return "No such job of yours has been measured yet"
    subject = "Your last such job" if such.jobs == 1 else f"Your last {such.jobs} such jobs"
    used = []
    if such.memory_bytes is not None:
        at_most = "" if such.jobs == 1 else "at most "
        on = "" if such.on_processors is None else f" on {such.on_processors} processors"
        of = f" ({such.with_memory} measured)" if such.with_memory < such.jobs else ""
        used.append(f"used {at_most}{memory(such.memory_bytes)}{on}{of}")
    if such.runtime_s is not None:
        used.append(f"ran {'' if such.jobs == 1 else 'at most '}{time_text(such.runtime_s)}")
    failed = [
        f"{count if such.jobs > 1 else 'it'} ran out of {what}"
        for count, what in ((such.out_of_memory, "memory"), (such.out_of_time, "time"))
        if count
    ]
    if not used:
        return f"{subject}: {', '.join(failed)}"
    return f"{subject} {' and '.join(used)}" + (f" ({', '.join(failed)})" if failed else "")
