"""What the user's last jobs of the same application used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, false, or_, select

from jobsight_predictor.question import Question
from jobsight_server.forecasts.job import application
from jobsight_server.storage.schema import jobs, profiles

LOOKED_AT = 200
"""The user's last finished runs among which such jobs are looked for."""

_MEMORY, _RUNTIME = profiles.alias("memory"), profiles.alias("runtime")


class MeasuredRun(NamedTuple):
    """A finished run; values of the whole job, None where they are not known."""

    name: str | None
    processors: int
    memory_bytes: float | None
    runtime_s: float | None
    requested_memory_bytes: float | None
    requested_walltime_s: float | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class SuchJobs:
    """The largest use among ``jobs`` runs; ``with_memory`` of them have a measured memory.

    ``scaled``: they had other numbers of processors, so that memory is theirs per processor times this job's.
    ``out_of_memory`` and ``out_of_time`` of them ran out of it, so that they would have used more.
    ``last_request_bytes`` and ``last_request_s`` are what the last of them requested.
    """

    jobs: int = 0
    with_memory: int = 0
    memory_bytes: float | None = None
    runtime_s: float | None = None
    scaled: bool = False
    last_request_bytes: float | None = None
    last_request_s: float | None = None
    out_of_memory: int = 0
    out_of_time: int = 0


def such_jobs(connection: Connection, cluster: str, question: Question, processors: int) -> SuchJobs:
    """Of the user's last finished runs those of the same application, with as many processors where there are any.

    For a job without a name, every run of the user is one.
    """
    runs = [
        run
        for run in _finished(connection, cluster, question.user or "")
        if question.application is None or (run.name is not None and application(run.name) == question.application)
    ]
    alike = [run for run in runs if run.processors == processors]
    return _largest(alike or runs, processors, scaled=not alike)


def _measured(metric: Any, name: str) -> Any:
    """Values that are shown and not learned, because they are a share of a node's, are not what the job used.

    What a job had when it ran out is neither, but such jobs used at least so much.
    """
    return and_(
        metric.c.run_id == jobs.c.id, metric.c.metric == name, or_(metric.c.shown_only == false(), metric.c.lower_bound)
    )


# Made once: it costs as much as its execution.
_LAST_RUNS = (
    select(
        jobs.c.name,
        jobs.c.processors,
        _MEMORY.c.value,
        _RUNTIME.c.value,
        jobs.c.requested_memory_bytes,
        jobs.c.requested_walltime_s,
        jobs.c.failure,
    )
    .outerjoin(_MEMORY, _measured(_MEMORY, "memory"))
    .outerjoin(_RUNTIME, _measured(_RUNTIME, "runtime"))
    .where(
        jobs.c.cluster == bindparam("cluster"),
        jobs.c.user == bindparam("user"),
        jobs.c.end.is_not(None),
        jobs.c.state == "ended",
    )
    .order_by(jobs.c.end.desc())
    .limit(LOOKED_AT)
)


def _finished(connection: Connection, cluster: str, user: str) -> list[MeasuredRun]:
    found = []
    for name, processors, memory, runtime, *rest in connection.execute(_LAST_RUNS, {"cluster": cluster, "user": user}):
        count = processors or 1
        found.append(MeasuredRun(name, count, None if memory is None else memory * count, runtime, *rest))
    return found


def _largest(runs: Iterable[MeasuredRun], processors: int, *, scaled: bool) -> SuchJobs:
    found = [run for run in runs if run.memory_bytes is not None or run.runtime_s is not None]
    if not found:
        return SuchJobs()

    def whole(value: float | None, run: MeasuredRun) -> float | None:
        return value if value is None or not scaled else value * processors / run.processors

    memory = [value for run in found if (value := whole(run.memory_bytes, run)) is not None]
    runtime = [run.runtime_s for run in found if run.runtime_s is not None]
    return SuchJobs(
        jobs=len(found),
        with_memory=len(memory),
        memory_bytes=max(memory, default=None),
        runtime_s=max(runtime, default=None),
        scaled=scaled,
        last_request_bytes=whole(found[0].requested_memory_bytes, found[0]),
        last_request_s=found[0].requested_walltime_s,
        out_of_memory=sum(run.failure == "memory" for run in found),
        out_of_time=sum(run.failure == "time" for run in found),
    )
