"""One line of text for the person who submits a job."""

from __future__ import annotations

import math
from collections.abc import Callable

from jobsight_server.advice.job_request import JobRequest
from jobsight_server.advice.such_jobs import SuchJobs

_PREFIXES = "KMGTPE"


def sentence(such: SuchJobs, request: JobRequest, memory_bytes: float | None, runtime_s: float | None) -> str:
    """What such jobs used, what this one asks for, and what is recommended; the last two are the recommendation."""
    parts = [_used(such)]
    asked = []
    if such.memory_bytes is not None or memory_bytes is not None:
        asked.append("no amount of memory" if request.memory_bytes is None else memory_text(request.memory_bytes))
    if such.runtime_s is not None or runtime_s is not None:
        asked.append("no time limit" if request.walltime_s is None else time_text(request.walltime_s))
    if asked:
        parts[0] += f"; this one asks for {' and '.join(asked)}."
    else:
        parts[0] += "."
    recommended = [text for text in (_text(memory_bytes, memory_text), _text(runtime_s, time_text)) if text]
    if recommended:
        parts.append(f"Recommended: {' and '.join(recommended)}.")
    return " ".join(parts)


def memory_text(value: float, binary: str = "") -> str:
    """Memory in schedulers' units, which are powers of 1024; with an ``i`` in them to say so.

    >>> [memory_text(value) for value in (512, 300 * 2**20, 2.1 * 2**30, 64 * 2**30, 1023.9 * 2**20)]
    ['512 bytes', '300 MB', '2.1 GB', '64 GB', '1.0 GB']
    >>> memory_text(4 * 2**50, "i")
    '4 PiB'
    """
    power = 0
    while value >= 999.5 and power < len(_PREFIXES):
        value, power = value / 1024, power + 1
    unit = f"{_PREFIXES[power - 1]}{binary}B" if power else "bytes"
    short = power and value < 9.95 and value != int(value)
    return f"{value:.1f} {unit}" if short else f"{value:.0f} {unit}"


def time_text(value: float) -> str:
    """A run time in whole minutes, rounded up as a limit is.

    >>> [time_text(value) for value in (42, 90, 120.5, 3600, 5400, 86400, 93500)]
    ['42 s', '2 min', '3 min', '1 h', '1 h 30 min', '1 d', '1 d 1 h 59 min']
    """
    if value < 60:
        return f"{value:.0f} s"
    hours, minutes = divmod(math.ceil(value / 60), 60)
    days, hours = divmod(hours, 24)
    return " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count)


def _used(such: SuchJobs) -> str:
    if not such.jobs:
        return "No such job of yours has been measured yet"
    subject = "Your last such job" if such.jobs == 1 else f"Your last {such.jobs} such jobs"
    used = []
    if such.memory_bytes is not None:
        at_most = "" if such.jobs == 1 else "at most "
        per = " for as many processors" if such.scaled else ""
        of = f" ({such.with_memory} measured)" if such.with_memory < such.jobs else ""
        used.append(f"used {at_most}{memory_text(such.memory_bytes)}{per}{of}")
    if such.runtime_s is not None:
        used.append(f"ran {'' if such.jobs == 1 else 'at most '}{time_text(such.runtime_s)}")
    failed = [
        f"{count if such.jobs > 1 else 'it'} ran out of {what}"
        for count, what in ((such.out_of_memory, "memory"), (such.out_of_time, "time"))
        if count
    ]
    return f"{subject} {' and '.join(used)}" + (f" ({', '.join(failed)})" if failed else "")


def _text(value: float | None, write: Callable[[float], str]) -> str:
    return "" if value is None else write(value)
