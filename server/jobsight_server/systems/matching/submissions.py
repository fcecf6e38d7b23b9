"""Submissions with a key: a client may send a job again, and it counts once.

The key stands before the job's own fields in the stored document, and is kept as long as that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, func, select

from jobsight_scheduler.matching.check import Answer, Match, Unmatched
from jobsight_server.ground.answers import Record
from jobsight_server.storage.engine import rows_of
from jobsight_server.systems.matching.predicted import PredictedAmount
from jobsight_server.systems.matching.tables import holds, matches


class MadeMatch(Match, frozen=True):
    """A whole match: instances by dependency. ``id`` and ``until`` are null in a dry run, which holds nothing."""

    id: int | None = None
    until: float | None = None


class TimeSpent(Record):
    """The server's time for the answer: reading the state, solving, storing the matches."""

    query_s: float = 0.0
    solve_s: float = 0.0
    store_s: float = 0.0


class BatchAnswer(Answer, frozen=True, kw_only=True):
    """A whole match or none for each job, with its quality and its solver.

    ``objective``, ``bound`` and ``gap`` are those of the first objective; ``rung`` is the solver that found it, on
    ``rows`` and ``columns``; ``failed`` are those that failed; ``conflicts`` counts matches that were made again
    because another request took a resource.
    """

    matches: tuple[MadeMatch, ...]
    predicted: list[PredictedAmount]
    conflicts: int
    time: TimeSpent


class QueuedJob(Record):
    """A job that waits; ``GET /api/v1/matches/ID`` shows its outcome."""

    job: str
    id: int


class SubmittedJobs(Record):
    """Jobs that wait for a round of matching, and those without data for a prediction."""

    queued: list[QueuedJob]
    refused: list[Unmatched]
    predicted: list[PredictedAmount]


SubmissionKey = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]

_FIELD = "submission"


@dataclass(frozen=True, slots=True)
class Earlier:
    """Jobs of earlier submissions with the same key: numbers by name, and their outcomes."""

    numbers: dict[str, int] = field(default_factory=dict)
    made: list[MadeMatch] = field(default_factory=list)
    waiting: list[Unmatched] = field(default_factory=list)


def document_with(key: str | None, job: Mapping[str, Any]) -> str:
    """Return the document to store with a job."""
    return msgspec.json.encode(job if key is None else {_FIELD: key} | dict(job)).decode()


def document_of(text: str) -> dict[str, Any]:
    """Return the job of a stored document, without the key."""
    job: dict[str, Any] = msgspec.json.decode(text)
    job.pop(_FIELD, None)
    return job


def earlier(connection: Connection, key: str | None) -> Earlier:
    """Read the jobs of earlier submissions with ``key``."""
    found = Earlier()
    if key is None:
        return found
    start = f'{{"{_FIELD}":"{key}",'
    query = select(matches.c.id, matches.c.name, matches.c.state, matches.c.until).where(
        func.substr(matches.c.job, 1, len(start)) == start
    )
    rows = connection.execute(query.order_by(matches.c.id)).all()
    held = held_resources(connection, [row.id for row in rows])
    for number, name, state, until in rows:
        found.numbers[name] = number
        if until is None:
            found.waiting.append(Unmatched(name, "turn", f"it was submitted before: match {number} is {state}"))
        else:
            resources = {dependency: tuple(names) for dependency, names in held[number].items()}
            found.made.append(MadeMatch(name, resources, number, until))
    return found


def held_resources(connection: Connection, numbers: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """Return the names of the resources of each of these matches, by dependency."""
    found: dict[int, dict[str, list[str]]] = {number: {} for number in numbers}
    query = select(holds.c.match_id, holds.c.dependency, holds.c.resource)
    query = query.order_by(holds.c.dependency, holds.c.resource)
    for number, dependency, name in rows_of(connection, query, holds.c.match_id, numbers):
        found[number].setdefault(dependency, []).append(name)
    return found
