"""Runs as forecasts see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select

from jobsight_predictor.templates import Question
from jobsight_server.forecasts.question import job_question
from jobsight_server.storage.schema import jobs

COLUMNS = (
    jobs.c.id,
    jobs.c.cluster,
    jobs.c.user,
    jobs.c.name,
    jobs.c.queue,
    jobs.c.processors,
    jobs.c.requested_memory_bytes,
    jobs.c.requested_walltime_s,
    jobs.c.state,
    jobs.c.submitted,
    jobs.c.start,
    jobs.c.end,
    jobs.c.foretold,
)
"""What ``job_of`` reads, in its order."""

_AT_ONCE = 500


class Job(NamedTuple):
    """A run: what it was known by when it was submitted, and when that was (UTC; None where nobody knows).

    ``foretold`` is the position of the last run that had been learned when its tickets were made; None before.
    """

    run_id: int
    cluster: str
    question: Question
    state: str
    submitted: float | None
    start: float | None
    end: float | None
    foretold: int | None

    @property
    def seconds(self) -> float | None:
        """How long it ran, at least 1; None where that is not known."""
        return None if self.start is None or self.end is None else max(self.end - self.start, 1.0)

    @property
    def user(self) -> str:
        assert self.question.user is not None
        return self.question.user


def job_of(row: Sequence[Any]) -> Job:
    """The job in a row of ``COLUMNS``."""
    run_id, cluster, *told, state, submitted, start, end, foretold = row
    return Job(run_id, cluster, job_question(*told), state, submitted, start, end, foretold)


def read_jobs(connection: Connection, runs: Sequence[int]) -> dict[int, Job]:
    """These runs, by their id."""
    query = select(*COLUMNS).where(jobs.c.id.in_(bindparam("runs", expanding=True)))
    found: dict[int, Job] = {}
    for begin in range(0, len(runs), _AT_ONCE):
        for row in connection.execute(query, {"runs": list(runs[begin : begin + _AT_ONCE])}):
            found[row.id] = job_of(row)
    return found


def read_waiting(connection: Connection, before: float) -> list[Job]:
    """Runs submitted before ``before`` for which nothing was forecast yet, in order of submission.

    Those that were removed or requeued are among them.
    """
    query = (
        select(*COLUMNS)
        .where(jobs.c.foretold.is_(None), jobs.c.submitted < before)
        .order_by(jobs.c.submitted, jobs.c.id)
    )
    return [job_of(row) for row in connection.execute(query)]
