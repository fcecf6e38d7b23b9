"""Submissions with a key: a job that was taken in under a key is not taken in again, so that a client may try again.

The key stands before the job's own fields in the document that is kept with it; it is known as long as the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, func, select

from jobsight_scheduler.matching.answer import Unmatched
from jobsight_server.systems.matching.answers import MadeMatch
from jobsight_server.systems.matching.tables import holds, matches

SubmissionKey = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]

_FIELD = "submission"


@dataclass(frozen=True, slots=True)
class Earlier:
    """Jobs that a submission with the same key has brought: numbers by name, and what became of them."""

    numbers: dict[str, int] = field(default_factory=dict)
    made: list[MadeMatch] = field(default_factory=list)
    waiting: list[Unmatched] = field(default_factory=list)


def document_with(key: str | None, job: Mapping[str, Any]) -> str:
    """The document of a job as it is kept."""
    return msgspec.json.encode(job if key is None else {_FIELD: key} | dict(job)).decode()


def document_of(text: str) -> dict[str, Any]:
    """The job of a kept document, without the key."""
    job: dict[str, Any] = msgspec.json.decode(text)
    job.pop(_FIELD, None)
    return job


def earlier(connection: Connection, key: str | None) -> Earlier:
    """What the submission ``key`` has brought until now."""
    found = Earlier()
    if key is None:
        return found
    start = f'{{"{_FIELD}":"{key}",'
    query = select(matches.c.id, matches.c.name, matches.c.state, matches.c.until).where(
        func.substr(matches.c.job, 1, len(start)) == start
    )
    for number, name, state, until in connection.execute(query).all():
        found.numbers[name] = number
        if until is None:
            found.waiting.append(Unmatched(name, "turn", f"it was submitted before: match {number} is {state}"))
            continue
        held: dict[str, list[str]] = {}
        parts = select(holds.c.dependency, holds.c.resource).where(holds.c.match_id == number)
        for dependency, resource in connection.execute(parts.order_by(holds.c.dependency, holds.c.resource)):
            held.setdefault(dependency, []).append(resource)
        found.made.append(MadeMatch(name, {d: tuple(names) for d, names in held.items()}, number, until))
    return found
