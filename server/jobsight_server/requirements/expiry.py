"""Requirements that nobody reports on expire; the oldest are deleted."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, delete, func, select, update

from jobsight_server.requirements.stored import lock_requirements
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import requirements

OUTCOMES = "requirement_outcomes"
"""Counted by outcome: finished, failed, expired."""

_IS_OPEN = requirements.c.outcome.is_(None)


def expire(engine: Engine, before: float) -> int:
    """Ends the wait of those asked for before ``before``; returns how many there were, which is also counted."""
    with engine.begin() as connection:
        lock_requirements(connection)
        late = update(requirements).where(_IS_OPEN, requirements.c.asked_at < before).values(outcome="expired")
        expired = connection.execute(late).rowcount
        add_event_counts(connection, {(OUTCOMES, "expired"): expired})
    return expired


def delete_beyond(connection: Connection, last: int) -> None:
    """Deletes all up to number ``last``; those still open count as expired."""
    old = requirements.c.id <= last
    expired = connection.scalar(select(func.count()).select_from(requirements).where(old, _IS_OPEN)) or 0
    connection.execute(delete(requirements).where(old))
    add_event_counts(connection, {(OUTCOMES, "expired"): expired})


def is_gone(connection: Connection, number: int) -> bool:
    """Whether a requirement that is not there was deleted; the newest never is."""
    return 0 < number <= (connection.scalar(select(func.max(requirements.c.id))) or 0)
