"""Jobs that wait for a round of matching, in rows, which survive a kill of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, func, insert, select

from jobsight_scheduler.matching.check import Unmatched
from jobsight_server.forecasts.record import Record
from jobsight_server.systems.matching.predicted import PredictedAmount
from jobsight_server.systems.matching.resource_types import ResourceError
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.store_matches import begin_change, match_row
from jobsight_server.systems.matching.submissions import earlier
from jobsight_server.systems.matching.tables import matches


class QueuedJob(Record):
    """A job that waits; ``GET /api/v1/matches/ID`` shows its outcome."""

    job: str
    id: int


class SubmittedJobs(Record):
    """Jobs that wait for a round of matching, and those without data for a prediction or of an unknown type."""

    queued: list[QueuedJob]
    refused: list[Unmatched]
    predicted: list[PredictedAmount]


def submit(matcher: Matcher, engine: Engine, jobs: Sequence[Any], now: float, key: str | None = None) -> SubmittedJobs:
    """Queue a batch; jobs that were submitted with the same ``key`` before keep their numbers.

    Raises:
        ResourceError: it is invalid, or too many jobs wait already; no job is queued.
    """
    batch = matcher.read(jobs, key)
    most = matcher.settings.queued_at_most
    with engine.begin() as connection:
        change = begin_change(connection, len(batch.jobs))
        numbers = earlier(connection, key).numbers
        new = [job for job in batch.jobs if job.name not in numbers]
        waiting = connection.scalar(select(func.count()).select_from(matches).where(matches.c.state == "queued")) or 0
        if waiting + len(new) > most:
            raise ResourceError(f"{waiting} jobs wait already, and at most {most} may; submit these later", 409)
        rows = [
            match_row(job, batch.documents[job.name])
            | {"id": number, "state": "queued", "submitted_at": now, "rounds": 0, "version": change.version}
            for number, job in enumerate(new, change.first_match)
        ]
        if rows:
            connection.execute(insert(matches), rows)
        numbers |= {row["name"]: row["id"] for row in rows}
    return SubmittedJobs(
        [QueuedJob(job.name, numbers[job.name]) for job in batch.jobs],
        batch.refused,
        batch.predicted,
    )
