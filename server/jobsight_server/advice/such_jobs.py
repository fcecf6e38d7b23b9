"""Use of the user's last jobs of the same application."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, false, func, or_, select

from jobsight_predictor.question import Facts, Question
from jobsight_server.accounting.runs import FAILED_METRIC, Failure
from jobsight_server.advice.decision import Resource, Use
from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME, question_of_text
from jobsight_server.storage.facts import facts_of
from jobsight_server.storage.schema import jobs, outcomes, profiles

CHECK = "jobsight-check"
"""Name of the job that ``jobsight check`` submits, which is no evidence for any other."""

LOOKED_AT = 200
"""Number of the user's last finished runs to search for similar jobs."""

FAILURE_OF = {metric: failure for failure, metric in FAILED_METRIC.items()}

_MEMORY, _RUNTIME = profiles.alias("memory"), profiles.alias("runtime")


class SuchJob(NamedTuple):
    """A finished run: its request and its use, of the whole job; None where unknown.

    ``job_id`` is empty for a report of a job that the log does not have: submitted, as far as known, when reported.
    """

    run_id: int
    job_id: str
    name: str | None
    application: str | None
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
    gpus: int | None = None

    def requested(self, metric: str) -> float | None:
        """Return the requested memory or run time."""
        return self.requested_memory_bytes if metric == "memory" else self.requested_walltime_s


@dataclass(frozen=True, slots=True)
class SuchJobs:
    """``runs`` that are similar to a job of so many ``processors``, the latest first, and what each used of a resource.

    Where only some of them asked for address space, there is no use of memory to go by.
    """

    runs: Sequence[SuchJob]
    processors: int
    uses: Mapping[Resource, Sequence[Use]]

    @property
    def jobs(self) -> int:
        """Return how many there are."""
        return len(self.runs)

    @property
    def with_memory(self) -> int:
        """Return how many have measured memory."""
        return sum(run.memory_bytes is not None for run in self.runs)

    @property
    def memory_bytes(self) -> float | None:
        """Return the most memory that one used."""
        return max((run.memory_bytes for run in self.runs if run.memory_bytes is not None), default=None)

    @property
    def runtime_s(self) -> float | None:
        """Return the longest run time."""
        return max((run.runtime_s for run in self.runs if run.runtime_s is not None), default=None)

    @property
    def on_processors(self) -> int | None:
        """Return the processors of the run with the most memory, if no run had as many as the job."""
        largest = max(self.runs, key=lambda run: run.memory_bytes or 0.0, default=None)
        return None if largest is None or largest.processors == self.processors else largest.processors

    @property
    def memory_is_virtual(self) -> bool:
        """Return whether the memory that the last of them asked for was address space."""
        return bool(self.runs and self.runs[0].memory_is_virtual)

    def ran_out(self, of: Failure) -> int:
        """Return how many ran out of memory or time, and would have used more."""
        return sum(run.failure == of for run in self.runs)


def such_jobs(runs: Sequence[SuchJob], question: Question, processors: int) -> SuchJobs:
    """Select the user's runs of the same application, with as many processors if there are any.

    For a job without a name, every run of the user counts.
    """
    runs = of_application(runs, question.application)
    alike = [run for run in runs if run.processors == processors]
    # One that ran out counts even without a measurement: its user reads why more is recommended.
    found = [run for run in alike or runs if run.failure or (run.memory_bytes, run.runtime_s) != (None, None)]
    uses = _uses(found, processors)
    if len({bool(run.memory_is_virtual) for run in found if run.memory_bytes is not None}) > 1:
        uses["memory"] = []
    return SuchJobs(found, processors, uses)


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
    return [run for run in runs if run.application == name]


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
        jobs.c.application,
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
        jobs.c.gpus,
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
    question = question_of_text(row.question)
    count = question.processors or 1
    amounts = {row.metric: row.value * (count if row.metric == "memory" else 1)}
    used, given = ({}, amounts) if row.lower_bound else (amounts, {})
    asked = question.requested_memory_bytes
    return SuchJob(
        run_id=-row.id,
        job_id="",
        name=question.application,
        application=question.application,
        queue=question.queue,
        group=question.group,
        account=question.account,
        processors=count,
        requested_memory_bytes=None if asked is None else asked * count,
        requested_walltime_s=question.requested_time_s,
        memory_bytes=used.get("memory"),
        runtime_s=used.get("runtime"),
        failure=FAILURE_OF[row.metric] if row.lower_bound else None,
        given_memory_bytes=given.get("memory"),
        given_walltime_s=given.get("runtime"),
        submitted=row.reported,
        end=row.reported,
    )


def last_runs(connection: Connection, cluster: str, user: str) -> list[SuchJob]:
    """Read the user's last ``LOOKED_AT`` finished runs and reports of jobs, latest first."""
    of_user = {"cluster": cluster, "user": user}
    found = [_reported(row) for row in connection.execute(_LAST_REPORTS, of_user)]
    for row in connection.execute(_LAST_RUNS, of_user):
        run = SuchJob._make(row)
        count = run.processors or 1
        found.append(
            run._replace(
                processors=count,
                requested_memory_bytes=run.requested_memory_bytes or None,  # 0 is none
                requested_walltime_s=run.requested_walltime_s or None,
                memory_bytes=None if run.memory_bytes is None else run.memory_bytes * count,
                facts=facts_of(row.facts) if row.facts else (),
            )
        )
    return sorted(found, key=lambda run: run.end or 0.0, reverse=True)[:LOOKED_AT]
