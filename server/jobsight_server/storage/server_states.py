"""The server's size and backlog every few minutes, the source of growth and the time to empty."""

from __future__ import annotations

import shutil
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, func, insert, select

from jobsight_server.storage.engine import database_file, total_bytes
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, server_states

EVERY_S = 300.0
KEPT_S = 30 * 86400.0
BACKLOG_OVER_S = 3600.0
GROWTH_OVER_S = 7 * 86400.0
BACKLOG_FROM_S, GROWTH_FROM_S = 600.0, 86400.0
"""Shortest times for a rate: a backlog changes within minutes, but a database grows in steps, and by day and night."""


class State(NamedTuple):
    """Bytes of the database, and free ones of its disk (None on another machine); runs without and with a profile."""

    time: float
    database_bytes: int
    free_bytes: int | None
    waiting: int
    profiled: int


class Trend(NamedTuple):
    """The state now, and the database's growth and the backlog's decrease per second; None while unknown."""

    now: State
    growth_bytes_s: float | None
    shrinking_s: float | None


def record_state(engine: Engine, now: float) -> None:
    """Store the state, and delete those older than a month."""
    with engine.connect().execution_options(reading=True) as connection:
        state = current_state(connection, now)
    with engine.begin() as connection:
        connection.execute(delete(server_states).where(server_states.c.time < now - KEPT_S))
        connection.execute(delete(server_states).where(server_states.c.time == now))
        connection.execute(insert(server_states).values(state._asdict()))


def current_state(connection: Connection, now: float) -> State:
    """Return the current state."""
    ended = select(job_counts.c.profiled, NUMBER).where(job_counts.c.state == "ended").group_by(job_counts.c.profiled)
    numbers = {bool(profiled): int(number) for profiled, number in connection.execute(ended)}
    return State(now, total_bytes(connection), disk_free_bytes(connection), numbers.get(False, 0), numbers.get(True, 0))


def trend(connection: Connection, now: float) -> Trend:
    """Return the state now beside the oldest ones of the last hour and week."""
    state = current_state(connection, now)
    hour, week = _oldest(connection, now - BACKLOG_OVER_S), _oldest(connection, now - GROWTH_OVER_S)
    shrinking = growth = None
    if hour is not None and now - hour.time >= BACKLOG_FROM_S:
        shrinking = (hour.waiting - state.waiting) / (now - hour.time)
    if week is not None and now - week.time >= GROWTH_FROM_S:
        growth = (state.database_bytes - week.database_bytes) / (now - week.time)
    return Trend(state, growth, shrinking)


def _oldest(connection: Connection, since: float) -> State | None:
    first = select(func.min(server_states.c.time)).where(server_states.c.time >= since).scalar_subquery()
    row = connection.execute(select(server_states).where(server_states.c.time == first)).one_or_none()
    return None if row is None else State(*row)


def disk_free_bytes(connection: Connection) -> int | None:
    """Return free bytes on the disk of an SQLite database; None for another server's."""
    file = database_file(connection.engine)
    try:
        return None if file is None else shutil.disk_usage(file.parent).free
    except OSError:
        return None
