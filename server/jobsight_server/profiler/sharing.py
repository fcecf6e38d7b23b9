"""Which other runs were on a run's nodes, and how what the nodes did is attributed to it [DEFINITIONS 1]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, text

from jobsight_server.profiler.idle import FRESH_S

# A run whose end never came is taken to have ended this long after the walltime it asked for.
_OVERTIME_S = 3600.0
# Runs that ended this long before are of interest too: they say when the node was without a job.
_BEFORE_S = FRESH_S
_AFTER_S = 3600.0

_FOREVER = 1e18
_ON_NODES = text(
    'SELECT j.cluster, n.node, j.id, j.start, j."end", j.requested_walltime_s, n.processors '
    "FROM jobs j JOIN job_nodes n ON n.run_id = j.id "
    'WHERE j.start < :until AND j."end" > :since '
    "AND n.node IN (SELECT node FROM job_nodes WHERE run_id IN :runs) "
    "UNION ALL "
    'SELECT j.cluster, n.node, j.id, j.start, j."end", j.requested_walltime_s, n.processors '
    "FROM jobs j JOIN job_nodes n ON n.run_id = j.id "
    'WHERE j.start < :until AND j."end" IS NULL '
    "AND n.node IN (SELECT node FROM job_nodes WHERE run_id IN :runs)"
).bindparams(bindparam("runs", expanding=True))


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run, as far as its profile depends on the accounting log. Times are the scheduler's.

    ``next_start``: when the same job was started again, if it was. ``nodes``: processors held on each node.
    """

    id: int
    cluster: str
    job_id: str
    user: str
    start: float
    end: float
    processors: int | None
    used_cpu_s: float | None
    used_memory_bytes: int | None
    recorded_at: float = 0.0
    next_start: float | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Presence:
    """A run on a node; ``end`` is far away while it still runs."""

    run_id: int
    start: float
    end: float
    processors: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other runs of one node near a run's life: those that overlap it, and all of them."""

    overlapping: tuple[Presence, ...]
    near: tuple[Presence, ...]


Presences = Mapping[tuple[str, str], Sequence[Presence]]


def read_presences(connection: Connection, runs: Sequence[Run]) -> Presences:
    """Per (cluster, node name) of ``runs``: every run on it from a day before the first to an hour after the last."""
    if not runs:
        return {}
    since, until = min(run.start for run in runs) - _BEFORE_S, max(run.end for run in runs) + _AFTER_S
    found: dict[tuple[str, str], list[Presence]] = {}
    rows = connection.execute(_ON_NODES, {"since": since, "until": until, "runs": [run.id for run in runs]})
    for cluster, node, run_id, start, end, walltime_s, processors in rows:
        if end is None:
            end = _FOREVER if walltime_s is None else start + walltime_s + _OVERTIME_S
        found.setdefault((cluster, node), []).append(Presence(run_id, start, end, processors))
    return found


def neighbours(run: Run, presences: Iterable[Presence]) -> Neighbours:
    """The other runs of a node of ``run``."""
    near = tuple(
        other
        for other in presences
        if other.run_id != run.id and other.start < run.end + _AFTER_S and other.end > run.start - _BEFORE_S
    )
    return Neighbours(tuple(o for o in near if o.start < run.end and o.end > run.start), near)


def attribution(processors: int, overlapping: Sequence[Presence]) -> str:
    """How a node's use can be attributed to a run that holds ``processors`` of it."""
    if not overlapping:
        return "exclusive"
    if processors <= 0 or any(other.processors <= 0 for other in overlapping):
        return "unknown"
    return "apportioned"
