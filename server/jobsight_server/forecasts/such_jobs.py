"""Use of the user's last jobs of the same application."""

from __future__ import annotations

import math
from bisect import insort_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, false, func, or_, select

from jobsight_predictor.question import Facts, Question
from jobsight_server.accounting.runs import FAILED_METRIC, Failure
from jobsight_server.forecasts.decision import ASKED_FOR, Resource, Use
from jobsight_server.forecasts.request import (
    ASKED_MEMORY,
    ASKED_PROCESSORS,
    ASKED_WALLTIME,
    ForecastJob,
    question_of_text,
)
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.facts import facts_of
from jobsight_server.storage.schema import jobs, outcomes, profiles

CHECK = "jobsight-check"
"""Name of the job of ``jobsight check``, which is not evidence for other jobs."""

LOOKED_AT = 200
"""Number of the user's last finished runs to search for similar jobs."""

FARTHEST = 4
"""Largest factor between the processors of similar jobs; memory does not grow evenly beyond."""

FAILURE_OF = {metric: failure for failure, metric in FAILED_METRIC.items()}
OUT_OF_MEMORY, OUT_OF_TIME = FAILURE_OF["memory"], FAILURE_OF["runtime"]

_MEMORY, _RUNTIME = profiles.alias("memory"), profiles.alias("runtime")


class SuchJob(NamedTuple):
    """A finished run: its request and its use, of the whole job; None where unknown.

    ``job_id`` is empty for a report of a job that is not in the log, with the report's time as submission.
    """

    run_id: int
    application: str | None
    processors: int
    memory_bytes: float | None
    runtime_s: float | None
    failure: str | None
    given_memory_bytes: float | None = None
    given_walltime_s: float | None = None
    submitted: float | None = None
    end: float | None = None
    memory_is_virtual: bool | None = None
    job_id: str = ""
    name: str | None = None
    queue: str | None = None
    group: str | None = None
    account: str | None = None
    requested_memory_bytes: float | None = None
    requested_walltime_s: float | None = None
    facts: Facts = ()
    requested_nodes: str | None = None
    memory_word: str | None = None
    gpus: int | None = None

    def requested(self, metric: str) -> float | None:
        """Return the requested memory or run time."""
        return self.requested_memory_bytes if metric == "memory" else self.requested_walltime_s


@dataclass(frozen=True, slots=True)
class SuchJobs:
    """``runs`` similar to a job of ``processors``, the latest first, and their use of each resource.

    If only some of them requested address space, their memory is not comparable. A job that is not ``is_named`` may
    differ from all of them. ``has_others``: there are more, with other numbers of processors.
    """

    runs: Sequence[SuchJob]
    processors: int
    uses: Mapping[Resource, Sequence[Use]]
    is_named: bool
    has_others: bool = False

    @property
    def jobs(self) -> int:
        """Return the number of runs."""
        return len(self.runs)

    def used(self, resource: Resource) -> list[float]:
        """Return the measured use of each run that has one; empty if they are not comparable."""
        used = [run.memory_bytes if resource == "memory" else run.runtime_s for run in self.runs]
        return [amount for amount in used if amount is not None and self.uses[resource]]

    def most(self, resource: Resource) -> float | None:
        """Return the largest memory used, or the longest run time."""
        return max(self.used(resource), default=None)

    @property
    def on_processors(self) -> str:
        """Return their numbers of processors in words, empty if all of the application had as many as the job."""
        counts = {run.processors for run in self.runs}
        if not self.has_others and counts <= {self.processors}:
            return ""
        least, most = min(counts), max(counts)
        return (
            f" on {least} processor{'s' if most > 1 else ''}" if least == most else f" on {least} to {most} processors"
        )

    @property
    def memory_is_virtual(self) -> bool:
        """Return whether the last of them requested address space."""
        return bool(self.runs and self.runs[0].memory_is_virtual)

    def ran_out(self, of: Failure) -> int:
        """Return the number that ran out of memory or time, and would have used more."""
        return sum(run.failure == of for run in self.runs)


def such_jobs(runs: Sequence[SuchJob], question: Question, processors: int) -> SuchJobs:
    """Select the user's runs of the same application, with as many processors, or else within ``FARTHEST`` times.

    For a job without a name, every run of the user counts.
    """
    runs = of_application(runs, question.application)
    runs = [run for run in runs if run.processors <= FARTHEST * processors and processors <= FARTHEST * run.processors]
    alike = [run for run in runs if run.processors == processors]
    # A run that ran out counts even without a measurement: it explains a higher recommendation.
    found = [run for run in alike or runs if run.failure or (run.memory_bytes, run.runtime_s) != (None, None)]
    uses = _uses(found, processors)
    if len({bool(run.memory_is_virtual) for run in found if run.memory_bytes is not None}) > 1:
        uses["memory"] = []
    return SuchJobs(found, processors, uses, question.application is not None, 0 < len(alike) < len(runs))


def _uses(runs: Sequence[SuchJob], processors: int) -> dict[Resource, list[Use]]:
    """Return each run's use, or its limit if it ran out; memory for at least as many processors as its own."""
    memory: list[Use] = []
    runtime: list[Use] = []
    for i, (run, burst) in enumerate(zip(runs, _bursts(runs), strict=True)):
        used, failure, is_alike = run.memory_bytes, run.failure, run.processors == processors
        if failure == OUT_OF_MEMORY:
            used = max(used or 0.0, run.given_memory_bytes or 0.0)
        if used:
            factor = max(1.0, processors / run.processors)
            memory.append(Use(factor * used, burst, failure == OUT_OF_MEMORY, i, is_alike))
        used = run.runtime_s
        if failure == OUT_OF_TIME:
            used = max(used or 0.0, run.given_walltime_s or 0.0)
        if used:
            runtime.append(Use(used, burst, failure == OUT_OF_TIME, i, is_alike))
    return {"memory": memory, "runtime": runtime}


def _bursts(runs: Sequence[SuchJob]) -> list[int]:
    """Number the burst of each run: one submitted before the first of a burst has ended belongs to it."""
    found = [0] * len(runs)
    number, first_end = 0, -math.inf
    submitted = [run.submitted or 0.0 for run in runs]
    for i in sorted(range(len(runs)), key=submitted.__getitem__):
        end = runs[i].end
        if submitted[i] >= first_end:
            number, first_end = number + 1, math.inf
        if end is not None and end < first_end:
            first_end = end
        found[i] = number
    return found


def of_application(runs: Sequence[SuchJob], name: str | None) -> list[SuchJob]:
    """Select the runs of this application; all of them if it is None, but those that ``jobsight check`` submits."""
    if name is None:
        return [run for run in runs if run.application != CHECK]
    return [run for run in runs if run.application == name]


def _measured(metric: Any, name: str) -> Any:
    """Return the condition for a run's profile in one metric to be the use of the whole job.

    Values with ``shown_only`` are shares of a node's use, or of a part of the job. Those of a run that ran out of the
    resource count as well: similar jobs used at least that much.
    """
    ran_out = and_(metric.c.lower_bound, jobs.c.failure == FAILURE_OF[name])
    return and_(metric.c.run_id == jobs.c.id, metric.c.metric == name, or_(metric.c.shown_only == false(), ran_out))


_COUNT = func.coalesce(func.nullif(ASKED_PROCESSORS, 0), 1)
_OF_USER = (
    jobs.c.cluster == bindparam("cluster"),
    jobs.c.user == bindparam("user"),
    jobs.c.end.is_not(None),
    jobs.c.state == "ended",
)
_LATEST_FIRST = (jobs.c.end.desc(), jobs.c.id.desc())
_COLUMNS = {
    "run_id": jobs.c.id,
    "processors": _COUNT,
    "memory_bytes": _MEMORY.c.value * _COUNT,
    "runtime_s": _RUNTIME.c.value,
    "given_memory_bytes": jobs.c.requested_memory_bytes,
    "given_walltime_s": jobs.c.requested_walltime_s,
    "submitted": func.coalesce(jobs.c.submitted, jobs.c.start),
    "requested_memory_bytes": func.nullif(ASKED_MEMORY, 0),  # 0 is none
    "requested_walltime_s": func.nullif(ASKED_WALLTIME, 0),
}
"""Those of ``SuchJob`` that are not the columns of ``jobs`` with the same names."""
# Built once: that costs as much as an execution.
_LAST_RUNS = (
    select(*(_COLUMNS[name] if name in _COLUMNS else jobs.c[name] for name in SuchJob._fields))
    .outerjoin(_MEMORY, _measured(_MEMORY, "memory"))
    .outerjoin(_RUNTIME, _measured(_RUNTIME, "runtime"))
    .where(*_OF_USER)
    .order_by(*_LATEST_FIRST)
    .limit(LOOKED_AT)
)
_EARLIEST = select(jobs.c.end, jobs.c.id).where(*_OF_USER).order_by(*_LATEST_FIRST).offset(LOOKED_AT - 1).limit(1)
_OF_APPLICATION = _LAST_RUNS.where(
    jobs.c.application == bindparam("application"),
    jobs.c.end >= bindparam("since"),
    or_(jobs.c.end > bindparam("since"), jobs.c.id >= bindparam("first")),
)


_LAST_REPORTS = (
    select(outcomes)
    .where(
        outcomes.c.cluster == bindparam("cluster"),
        outcomes.c.user == bindparam("user"),
        outcomes.c.metric.in_([*FAILURE_OF]),
        outcomes.c.run_id.is_(None),
    )
    .order_by(outcomes.c.id.desc())
    .limit(LOOKED_AT)
)


def _reported(row: Row[Any]) -> SuchJob:
    return reported_run(question_of_text(row.question), row.metric, row.value, row.reported, failed=row.lower_bound)


def reported_run(question: Question, metric: str, value: float, at: float, *, failed: bool) -> SuchJob:
    """Make the run of a report: its need, per processor for memory, or its limit when it ``failed``."""
    count, failure = question.processors or 1, FAILURE_OF[metric] if failed else None
    amount = value * count if metric == "memory" else value
    memory, runtime = (amount if metric == name else None for name in ASKED_FOR)
    used, given = ((None, None), (memory, runtime)) if failed else ((memory, runtime), (None, None))
    return SuchJob(0, question.application, count, *used, failure, *given, at, at)


def finished_run(job: ForecastJob, used: Mapping[str, float]) -> SuchJob:
    """Make the run of an ended job with its use by metric, equal to that of ``last_runs``."""
    count, memory = job.question.processors or 1, used.get("memory")
    given = job.given_memory_bytes
    return SuchJob(
        job.run_id,
        job.question.application,
        count,
        None if memory is None else memory * count,
        used.get("runtime"),
        job.failure,
        None if given is None else given * count,
        job.given_time_s,
        job.start if job.submitted is None else job.submitted,
        job.end,
        job.memory_is_virtual,
    )


_FACTS = SuchJob._fields.index("facts")
_KEPT = SuchJob._fields.index("job_id")  # the fields before decide which runs are similar, and their use


STANDING_AT_MOST = 20
"""Decisions kept for a user."""

NEWS = 5  # 1 / share; a decision is made again once this share of its similar jobs is new

Decided = tuple[str | None, int, Resource, float]
"""Subject of a decision: application, processors, resource and requested amount."""


class LastRuns:
    """A user's last learned runs, and the decisions that are still valid.

    A decision is valid until a fifth more runs of the application, or one that failed or used more than decided.
    """

    def __init__(self, state: tuple[Sequence[Any], Sequence[Any]] = ((), ())) -> None:
        runs, standing = state
        self._runs = [SuchJob(*row) for row in runs]  # the latest first
        # The amount, and the number of further runs for which it is valid.
        self._standing: dict[Decided, tuple[float, int]] = {tuple(key): (amount, n) for *key, amount, n in standing}
        self._similar: dict[tuple[str | None, int], SuchJobs] = {}
        self._is_changed = False

    def add(self, run: SuchJob) -> None:
        """Learn a run, at its place in time."""
        insort_left(self._runs, run, key=lambda each: -(each.end or 0.0))
        del self._runs[LOOKED_AT:]
        self._changed(run)

    def fill_in(self, run_id: int, memory_bytes: float) -> None:
        """Learn the memory of a run that was learned without it, of the whole job."""
        for i, run in enumerate(self._runs):
            if run.run_id == run_id:
                self._runs[i] = run._replace(memory_bytes=memory_bytes)
                self._changed(self._runs[i])

    def similar(self, question: Question) -> SuchJobs:
        """Select the runs similar to a job, as ``such_jobs`` does."""
        key = question.application, question.processors or 1
        if (found := self._similar.get(key)) is None:
            found = self._similar[key] = such_jobs(self._runs, question, key[1])
        return found

    def decided(self, of: Decided, decide: Callable[[], tuple[float, int]]) -> float:
        """Return the valid amount, or that of ``decide``, which returns it with the number of similar jobs."""
        if of not in self._standing:
            amount, similar = decide()
            self._standing[of] = amount, max(1, similar // NEWS)
            self._is_changed = True
            if len(self._standing) > STANDING_AT_MOST:
                del self._standing[next(iter(self._standing))]
        return self._standing[of][0]

    def changed_state(self) -> tuple[list[Any], list[Any]] | None:
        """Return the state, from which it can be restored; None if unchanged since the last call."""
        is_changed, self._is_changed = self._is_changed, False
        if not is_changed:
            return None
        standing = [(*key, *value) for key, value in self._standing.items()]
        return [run[:_KEPT] for run in self._runs], standing

    def _changed(self, run: SuchJob) -> None:
        self._is_changed = True
        self._similar.clear()
        used = {"memory": run.memory_bytes or 0.0, "runtime": run.runtime_s or 0.0}
        for key, (amount, left) in list(self._standing.items()):
            application, _, resource, _ = key
            if application in (None, run.application):
                if run.failure or used[resource] > amount or left == 1:
                    del self._standing[key]
                else:
                    self._standing[key] = amount, left - 1


def last_runs(connection: Connection, cluster: str, user: str, application: str | None = None) -> list[SuchJob]:
    """Read the user's last ``LOOKED_AT`` finished runs and reports of jobs, latest first; of this ``application``, if
    given, those among them."""
    of_user = {"cluster": cluster, "user": user}
    found = [_reported(row) for row in connection.execute(_LAST_REPORTS, of_user)]
    if application is None or found:
        rows = fetch(connection, _LAST_RUNS, of_user)
    else:  # most of the time goes into reading the measurements of the others
        since, first = connection.execute(_EARLIEST, of_user).first() or (-1e18, 0)
        chosen = {"application": application, "since": since, "first": first}
        rows = fetch(connection, _OF_APPLICATION, of_user | chosen)
    for row in rows:
        facts = facts_of(row[_FACTS]) if row[_FACTS] else ()
        found.append(SuchJob._make((*row[:_FACTS], facts, *row[_FACTS + 1 :])))
    last = sorted(found, key=lambda run: run.end or 0.0, reverse=True)[:LOOKED_AT]
    return last if application is None else of_application(last, application)
