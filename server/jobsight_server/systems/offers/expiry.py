"""Unconfirmed offers expire, jobs without a report are given up, the oldest are deleted."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, delete, select

from jobsight_server.systems.offers.stored import STANDING, OfferState, change_offers, lock_plan
from jobsight_server.systems.offers.tables import offers

REPORT_GRACE_S = 86400.0
"""How long after its time is over the end of a job is awaited; accounting may lag behind."""

_AT_ONCE = 1000


def expire_offers(connection: Connection, cluster: str, now: float) -> int:
    """Ends the wait for a cluster's offers whose time is over; the caller has locked its plan. Returns their number."""
    return sum(
        change_offers(connection, cluster, _overdue(connection, cluster, before, now), after)
        for before, after in _AFTER_ITS_TIME.items()
    )


def expire_all(engine: Engine, now: float, kept: int) -> int:
    """The same on every cluster; deletes ended offers beyond ``kept``."""
    overdue = select(offers.c.cluster).where(offers.c.state.in_(STANDING), offers.c.expires_at <= now).distinct()
    with engine.connect().execution_options(reading=True) as connection:
        clusters = connection.scalars(overdue).all()
    expired = 0
    for cluster in clusters:
        with engine.begin() as connection:
            lock_plan(connection, cluster)
            expired += expire_offers(connection, cluster, now)
    _delete_beyond(engine, kept)
    return expired


_AFTER_ITS_TIME: dict[OfferState, OfferState] = {"offered": "expired", "confirmed": "unknown", "running": "unknown"}


def _overdue(connection: Connection, cluster: str, state: OfferState, now: float) -> list[int]:
    query = select(offers.c.id).where(offers.c.state == state, offers.c.expires_at <= now, offers.c.cluster == cluster)
    return list(connection.scalars(query))


def _delete_beyond(engine: Engine, kept: int) -> None:
    """Deletes the oldest ended offers, a thousand at a time."""
    ended = offers.c.state.not_in(STANDING)
    with engine.connect().execution_options(reading=True) as connection:
        last = connection.scalar(select(offers.c.id).where(ended).order_by(offers.c.id.desc()).offset(kept).limit(1))
        if last is None:
            return
        old = connection.scalars(select(offers.c.id).where(ended, offers.c.id <= last).order_by(offers.c.id)).all()
    for begin in range(0, len(old), _AT_ONCE):
        with engine.begin() as connection:
            connection.execute(delete(offers).where(offers.c.id.in_(old[begin : begin + _AT_ONCE]), ended))
