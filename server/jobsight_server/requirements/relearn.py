"""Upkeep of requirements: those without feedback expire; a change of settings learns the reported jobs again."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, exists, func, select, update

from jobsight_server.forecasts.request import question_of_text
from jobsight_server.requirements.config import JOBSIGHT, RequirementConfig
from jobsight_server.requirements.groups import learn, learned_keys
from jobsight_server.requirements.stored import Parts, lock_requirements, write_parts
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.schema import requirement_groups, requirement_state, requirements

_Learned = defaultdict[str, Parts]
"""Parts by cluster."""


def relearn_if_changed(engine: Engine, config: RequirementConfig, stop: threading.Event | None = None) -> bool:
    """Rebuilds the state from the stored jobs, in the order in which they were reported, and deletes state of other
    settings; returns whether there was something to do.

    Meanwhile jobs are answered from what has been reported since the settings were changed.
    """
    others = requirement_state.c.method != config.method
    learned: _Learned = defaultdict(dict)
    with engine.connect().execution_options(reading=True) as connection:
        if connection.execute(select(requirement_state.c.key).where(others).limit(1)).first() is None:
            return False
        rows = _reported(connection)
    seen = {row.id for row in rows}
    if not _learn(learned, config, rows, stop):
        return False
    with engine.begin() as connection:
        lock_requirements(connection)
        # Jobs reported in the meantime, while nothing was blocked.
        _learn(learned, config, [row for row in _reported(connection) if row.id not in seen], None)
        connection.execute(delete(requirement_state))
        for cluster, parts in learned.items():
            write_parts(connection, cluster, config.method, parts)
    return True


def _reported(connection: Connection) -> Sequence[Row[Any]]:
    """Requirements with feedback, in its order."""
    query = select(requirements).where(requirements.c.outcome.in_(("finished", "failed")))
    return connection.execute(query.order_by(requirements.c.ended_at, requirements.c.id)).all()


def _learn(
    learned: _Learned, config: RequirementConfig, rows: Iterable[Row[Any]], stop: threading.Event | None
) -> bool:
    """Whether it came to the end. Jobsight's own answers need no state of requirements."""
    if config.name == JOBSIGHT:
        return True
    for row in rows:
        if stop is not None and stop.is_set():
            return False
        job, requested, parts = question_of_text(row.question), row.requested_bytes, learned[row.cluster]
        known = {key: parts[key] for key in learned_keys(config, job, requested) if key in parts}
        failed = row.outcome == "failed"
        parts |= learn(config, known, job, requested, row.memory_bytes, failed=failed, used_bytes=row.used_bytes)
    return True


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
