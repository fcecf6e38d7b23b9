"""Ends matches, and so returns what they hold: released, expired, lost with a resource, or cancelled while queued."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Engine, delete, select, true, update

from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.systems.matching.resource_types import ResourceError
from jobsight_server.systems.matching.store_matches import begin_change, mark_removal
from jobsight_server.systems.matching.tables import holds, matches

ENDED = "matches_ended"
"""Counted by how: released, expired, lost, cancelled."""

OPEN = ("queued", "held")
_AT_ONCE = 500


def release(engine: Engine, numbers: Sequence[int], now: float) -> list[int]:
    """Ends these matches, and cancels those that are queued; returns the numbers of those that were open."""
    ended = []
    with engine.begin() as connection:
        change = begin_change(connection)
        for begin in range(0, len(numbers), _AT_ONCE):
            some = matches.c.id.in_(numbers[begin : begin + _AT_ONCE])
            _expire(connection, some, now, change.version)
            for before, after in (("held", "released"), ("queued", "cancelled")):
                ended += _end(connection, some & (matches.c.state == before), after, None, now, change.version)
    return sorted(ended)


def renew(engine: Engine, number: int, until: float, now: float) -> None:
    """Has a match hold until ``until``.

    Raises:
        ResourceError: there is no such match, or it holds nothing any more.
    """
    with engine.begin() as connection:
        change = begin_change(connection)
        held = (matches.c.id == number) & (matches.c.state == "held") & (matches.c.until > now)
        if connection.execute(update(matches).where(held).values(until=until, version=change.version)).rowcount:
            return
        state = connection.scalar(select(matches.c.state).where(matches.c.id == number))
    if state is None:
        raise ResourceError(f"no match {number}; the oldest that ended are deleted", 404)
    raise ResourceError(f"match {number} is {'expired' if state == 'held' else state} and holds nothing to renew", 409)


def lose_matches(connection: Connection, resource_id: int, name: str, now: float, version: int) -> int:
    """Ends every match that holds something of a removed resource, within the caller's change."""
    on_it = matches.c.id.in_(select(holds.c.match_id).where(holds.c.resource_id == resource_id))
    _expire(connection, on_it, now, version)
    reason = f"resource {name} was removed"
    return len(_end(connection, on_it & (matches.c.state == "held"), "lost", reason, now, version))


def expire_matches(connection: Connection, now: float, version: int) -> int:
    """Marks the holds that are over, within the caller's change."""
    return len(_expire(connection, true(), now, version))


def some_expired(connection: Connection, now: float) -> bool:
    """Whether a hold is over whose row does not say so."""
    query = select(matches.c.id).where(matches.c.state == "held", matches.c.until <= now).limit(1)
    return connection.execute(query).first() is not None


def delete_ended(engine: Engine, kept: int) -> int:
    """Deletes the oldest ended matches beyond ``kept``; counted."""
    with engine.begin() as connection:
        begin_change(connection)
        ended = matches.c.state.not_in(OPEN)
        query = select(matches.c.id).where(ended).order_by(matches.c.id.desc()).limit(1).offset(kept)
        last = connection.scalar(query)
        if last is None:
            return 0
        old = ended & (matches.c.id <= last)
        connection.execute(delete(holds).where(holds.c.match_id.in_(select(matches.c.id).where(old))))
        count = connection.execute(delete(matches).where(old)).rowcount
        mark_removal(connection)
        add_event_counts(connection, {("matches_deleted", "more than are kept"): count})
        return count


def _expire(connection: Connection, which: ColumnElement[bool], now: float, version: int) -> list[int]:
    is_over = (matches.c.state == "held") & (matches.c.until <= now)
    return _end(connection, which & is_over, "expired", "its hold ended", now, version)


def _end(
    connection: Connection, which: ColumnElement[bool], state: str, reason: str | None, now: float, version: int
) -> list[int]:
    values = {"state": state, "ended_at": now, "version": version, "reason": reason, "tier": None}
    found = connection.execute(update(matches).where(which).values(values).returning(matches.c.id))
    ended = [number for (number,) in found]
    add_event_counts(connection, {(ENDED, state): len(ended)})
    return ended
