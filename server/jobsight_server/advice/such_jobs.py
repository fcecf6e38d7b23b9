"""Use of the user's last jobs of the same application."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, false, func, or_, select

from jobsight_predictor.question import Facts, Question
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.advice.decision import Resource, Use
from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME
from jobsight_server.storage.facts import application, facts_of
from jobsight_server.storage.schema import jobs, profiles

CHECK = "jobsight-check"
"""Name of the job that ``jobsight check`` submits, which is no evidence for any other."""

LOOKED_AT = 200
"""Number of the user's last finished runs to search for similar jobs."""

FAILURE_OF = {metric: failure for failure, metric in FAILED_METRIC.items()}

_MEMORY, _RUNTIME = profiles.alias("memory"), profiles.alias("runtime")


class SuchJob(NamedTuple):
    """A finished run: its request and its use, of the whole job; None where unknown."""

    run_id: int
    job_id: str
    name: str | None
    queue: str | None
    group: str | None
    account: str | None
    processors: int
    requested_memory_bytes: float | None
    requested_walltime_s: float | None
    memory_bytes: float | None
    runtime_s: float | None
    failure: str | None
    facts: Facts = ()
    requested_nodes: str | None = None
    given_memory_bytes: float | None = None
    given_walltime_s: float | None = None
    submitted: float | None = None
    end: float | None = None
    memory_word: str | None = None
    memory_is_virtual: bool | None = None

    def requested(self, metric: str) -> float | None:
        """Return the requested memory or run time."""
        return self.requested_memory_bytes if metric == "memory" else self.requested_walltime_s


@dataclass(frozen=True, slots=True)
class SuchJobs:
    """The use of ``jobs`` runs, the latest first, and the largest; ``with_memory`` of them have measured memory.

    ``on_processors``: processors of the run with the most memory, if no run had as many as the job in question.
    ``out_of_memory`` and ``out_of_time`` count those that ran out of it and would have used more.

    ``memory_word``: by which the last of them requested memory. ``memory_is_virtual``: that was address space. Where
    only some of them asked for that, there is no use of memory to go by.
    """

    jobs: int = 0
    with_memory: int = 0
    memory_bytes: float | None = None
    runtime_s: float | None = None
    on_processors: int | None = None
    out_of_memory: int = 0
    out_of_time: int = 0
    uses: Mapping[Resource, Sequence[Use]] = field(default_factory=lambda: {"memory": (), "runtime": ()})
    memory_word: str | None = None
    memory_is_virtual: bool = False

    def used(self, metric: str) -> float | None:
        """Return the largest use of memory or run time."""
        return self.memory_bytes if metric == "memory" else self.runtime_s


def such_jobs(runs: Sequence[SuchJob], question: Question, processors: int) -> SuchJobs:
    """Select the user's runs of the same application, with as many processors if there are any.

    For a job without a name, every run of the user counts.
    """
    runs = of_application(runs, question.application)
    alike = [run for run in runs if run.processors == processors]
    # One that ran out counts even without a measurement: its user reads why more is recommended.
    found = [run for run in alike or runs if run.failure or (run.memory_bytes, run.runtime_s) != (None, None)]
    largest = max(found, key=lambda run: run.memory_bytes or 0.0, default=None)
    uses = _uses(found, processors)
    if len({bool(run.memory_is_virtual) for run in found if run.memory_bytes is not None}) > 1:
        uses["memory"] = []
    return SuchJobs(
        jobs=len(found),
        with_memory=sum(run.memory_bytes is not None for run in found),
        memory_bytes=largest and largest.memory_bytes,
        runtime_s=max((run.runtime_s for run in found if run.runtime_s is not None), default=None),
        on_processors=None if alike or largest is None else largest.processors,
        out_of_memory=sum(run.failure == "memory" for run in found),
        out_of_time=sum(run.failure == "time" for run in found),
        uses=uses,
        memory_word=found[0].memory_word if found else None,
        memory_is_virtual=bool(found and found[0].memory_is_virtual),
    )


def _uses(runs: Sequence[SuchJob], processors: int) -> dict[Resource, list[Use]]:
    """Return what each run used, or had when it ran out of it: memory for at least as many processors as its own."""
    bursts = _bursts(runs)
    found: dict[Resource, list[Use]] = {"memory": [], "runtime": []}
    for run in runs:
        values: tuple[tuple[Resource, float | None, float | None, float], ...] = (
            ("memory", run.memory_bytes, run.given_memory_bytes, max(1.0, processors / run.processors)),
            ("runtime", run.runtime_s, run.given_walltime_s, 1.0),
        )
        for resource, used, given, factor in values:
            failed = run.failure == FAILURE_OF[resource]
            amount = max(used or 0.0, given or 0.0) if failed else used
            if amount:
                found[resource].append(Use(factor * amount, bursts[run.run_id], failed))
    return found


def _bursts(runs: Sequence[SuchJob]) -> dict[int, int]:
    """Number the bursts of these runs: a run submitted before the first of a burst has ended belongs to it."""
    found: dict[int, int] = {}
    number, first_end = 0, -math.inf
    for run in sorted(runs, key=lambda run: (run.submitted or 0.0, run.run_id)):
        if (run.submitted or 0.0) >= first_end:
            number, first_end = number + 1, math.inf
        first_end = min(first_end, math.inf if run.end is None else run.end)
        found[run.run_id] = number
    return found


def of_application(runs: Sequence[SuchJob], name: str | None) -> list[SuchJob]:
    """Select the runs of this application; all of them if it is None, but those that ``jobsight check`` submits."""
    if name is None:
        return [run for run in runs if run.name != CHECK]
    return [run for run in runs if run.name is not None and application(run.name) == name]


def _measured(metric: Any, name: str) -> Any:
    """Return the condition for a run's profile in one metric to be the use of the whole job.

    Values with ``shown_only`` are shares of a node's use, or of a part of the job. Those of a run that ran out of the
    resource count as well: similar jobs used at least that much.
    """
    ran_out = and_(metric.c.lower_bound, jobs.c.failure == FAILURE_OF[name])
    return and_(metric.c.run_id == jobs.c.id, metric.c.metric == name, or_(metric.c.shown_only == false(), ran_out))


# Built once: that costs as much as an execution.
_LAST_RUNS = (
    select(
        jobs.c.id,
        jobs.c.job_id,
        jobs.c.name,
        jobs.c.queue,
        jobs.c.group,
        jobs.c.account,
        ASKED_PROCESSORS,
        ASKED_MEMORY,
        ASKED_WALLTIME,
        _MEMORY.c.value,
        _RUNTIME.c.value,
        jobs.c.failure,
        jobs.c.facts,
        jobs.c.requested_nodes,
        jobs.c.requested_memory_bytes,
        jobs.c.requested_walltime_s,
        func.coalesce(jobs.c.submitted, jobs.c.start),
        jobs.c.end,
        jobs.c.memory_word,
        jobs.c.memory_is_virtual,
    )
    .outerjoin(_MEMORY, _measured(_MEMORY, "memory"))
    .outerjoin(_RUNTIME, _measured(_RUNTIME, "runtime"))
    .where(
        jobs.c.cluster == bindparam("cluster"),
        jobs.c.user == bindparam("user"),
        jobs.c.end.is_not(None),
        jobs.c.state == "ended",
    )
    .order_by(jobs.c.end.desc(), jobs.c.id.desc())
    .limit(LOOKED_AT)
)


def last_runs(connection: Connection, cluster: str, user: str) -> list[SuchJob]:
    """Read the user's last ``LOOKED_AT`` finished runs, latest first."""
    found = []
    for row in connection.execute(_LAST_RUNS, {"cluster": cluster, "user": user}):
        run = SuchJob._make(row)
        count = run.processors or 1
        found.append(
            run._replace(
                processors=count,
                requested_memory_bytes=run.requested_memory_bytes or None,  # 0 is none
                requested_walltime_s=run.requested_walltime_s or None,
                memory_bytes=None if run.memory_bytes is None else run.memory_bytes * count,
                facts=facts_of(row.facts),
            )
        )
    return found
