"""A job's original request, which Jobsight's submit plugin changed and noted in the job's comment.

The plugin ends the administrator's comment with ``jobsight_asked=mem_per_node:4000M,time:60``: MiB per node or per CPU,
and minutes, only for what it changed; ``none`` if the user asked for nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES, LONGEST_S

_REPORT = re.compile(r"\bjobsight_asked=([a-z_]+:[0-9a-zA-Z]+(?:,[a-z_]+:[0-9a-zA-Z]+)*)", re.ASCII)
_MEMORY = re.compile(r"([0-9]{1,15})M", re.ASCII)
_MINUTES = re.compile(r"[0-9]{1,15}", re.ASCII)
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Asked:
    """Memory of the whole job in bytes and run time in seconds; 0 means none requested, None not reported."""

    memory_bytes: int | None = None
    walltime_s: float | None = None


def asked_in(comment: object, processors: int | None, nodes: int | None) -> Asked:
    """Return the request in the last note of a comment, for a job with these requested processors and nodes.

    Empty without a readable note.

    >>> asked_in("jobsight: ... Set: ... jobsight_asked=mem_per_cpu:100M,time:none", 4, 1)
    Asked(memory_bytes=419430400, walltime_s=0.0)
    >>> asked_in("jobsight_asked=mem_per_node:99999999999999M", 1, 1), asked_in("a note", 1, 1)
    (Asked(memory_bytes=None, walltime_s=None), Asked(memory_bytes=None, walltime_s=None))
    """
    reports = _REPORT.findall(comment) if isinstance(comment, str) else []
    if not reports:
        return Asked()
    parts = dict(part.split(":", 1) for part in reports[-1].split(","))
    per_node, per_cpu = _bytes(parts.get("mem_per_node"), nodes), _bytes(parts.get("mem_per_cpu"), processors)
    return Asked(per_cpu if per_node is None else per_node, _seconds(parts.get("time")))


def _bytes(text: str | None, times: int | None) -> int | None:
    if text == "none":
        return 0
    match = None if text is None or not times else _MEMORY.fullmatch(text)
    found = 0 if match is None else int(match[1]) * _MIB * (times or 1)
    return found if 0 < found <= LARGEST_BYTES else None


def _seconds(text: str | None) -> float | None:
    if text == "none":
        return 0.0
    found = float(text) * 60 if text is not None and _MINUTES.fullmatch(text) else 0.0
    return found if 0 < found <= LONGEST_S else None
