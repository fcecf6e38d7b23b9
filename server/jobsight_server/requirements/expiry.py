"""Requirements without feedback expire; the oldest are deleted."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, delete, exists, func, select, update

from jobsight_server.requirements.stored import lock_requirements
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import requirement_groups, requirements

OUTCOMES = "requirement_outcomes"
"""Counted by outcome: finished, failed, expired."""

_IS_OPEN = requirements.c.outcome.is_(None)
_NOTHING_REPORTED = (requirement_groups.c.finished == 0) & (requirement_groups.c.failed == 0)


def expire(engine: Engine, before: float) -> int:
    """Ends the wait of those asked for before ``before``; returns how many there were, which is also counted."""
    with engine.begin() as connection:
        lock_requirements(connection)
        late = update(requirements).where(_IS_OPEN, requirements.c.asked_at < before).values(outcome="expired")
        expired = connection.execute(late).rowcount
        add_event_counts(connection, {(OUTCOMES, "expired"): expired})
    return expired


def delete_beyond(connection: Connection, last: int) -> None:
    """Deletes all up to number ``last``, with groups of which nothing else is known; those open count as expired."""
    old = requirements.c.id <= last
    expired = connection.scalar(select(func.count()).select_from(requirements).where(old, _IS_OPEN)) or 0
    connection.execute(delete(requirements).where(old))
    is_in_use = exists().where(requirements.c.group_id == requirement_groups.c.id)
    connection.execute(delete(requirement_groups).where(_NOTHING_REPORTED, ~is_in_use))
    add_event_counts(connection, {(OUTCOMES, "expired"): expired})


def is_gone(connection: Connection, number: int) -> bool:
    """Whether a requirement that is not there was deleted; the newest never is."""
    return 0 < number <= (connection.scalar(select(func.max(requirements.c.id))) or 0)
