"""Summaries of readings that retention deletes, by hour and by day; hours for a year more, days for ever."""

from __future__ import annotations

from dataclasses import astuple
from itertools import chain
from math import inf
from typing import Literal

from sqlalchemy import Connection, text

from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.samples import read_samples
from jobsight_server.storage.summarise import QUANTITIES, Spread, Summary, merged, summarise

Period = Literal["hour", "day"]
LENGTH_S: dict[Period, float] = {"hour": 3600.0, "day": 86400.0}

HOURS_KEPT_S = 365 * 86400.0
"""For how long hours stay after their readings are deleted."""

_EVER = 1e18
_COLUMNS = [f"{quantity}_{part}" for quantity in QUANTITIES for part in ("min", "mean", "max", "weight")]
_READ = (
    f"SELECT first_time, {', '.join(_COLUMNS)} FROM sample_summaries "
    "WHERE node_id = ? AND period = ? AND first_time >= ? AND first_time <= ? ORDER BY first_time"
)
_WRITE = (
    f"INSERT INTO sample_summaries (node_id, period, first_time, {', '.join(_COLUMNS)}) "
    f"VALUES (?, ?, ?{', ?' * len(_COLUMNS)}) ON CONFLICT (node_id, period, first_time) "
    f"DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in _COLUMNS)}"
)
_OLDEST = (
    "SELECT (SELECT min(time) FROM samples WHERE node_id = asked.node_id), "
    "(SELECT min(first_time) FROM sample_chunks WHERE node_id = asked.node_id) "
    "FROM (SELECT CAST(? AS INTEGER) AS node_id) AS asked"
)
# By node, as the primary key has them.
_DELETE_HOURS = text(
    "DELETE FROM sample_summaries WHERE node_id IN (SELECT id FROM nodes) AND period = 'hour' AND first_time < :before"
)


def summarise_before(connection: Connection, node_id: int, until: float) -> None:
    """Adds all readings of the node before ``until`` to its summaries; to be called once, as they are deleted.

    The first reading that stays ends the last interval. One that arrives later and lies within this interval makes
    its seconds count twice.
    """
    readings = read_samples(connection, node_id, -_EVER, until, around=1)
    count = int(readings.time.searchsorted(until))
    if not count:
        return
    hours = summarise(readings, count, LENGTH_S["hour"])
    for period, length_s in LENGTH_S.items():
        new = merged(hours, length_s)
        before = read_summaries(connection, node_id, period, new[0].first_time, new[-1].first_time) if new else []
        _write(connection, node_id, period, merged([*before, *new], length_s))


def read_summaries(
    connection: Connection, node_id: int, period: Period, since: float = -inf, until: float = inf
) -> list[Summary]:
    """Of the node's hours or days that begin from ``since`` to ``until``, in order of time."""
    found = []
    place = (node_id, period, max(since, -_EVER), min(until, _EVER))
    for first_time, *numbers in fetch(connection, _READ, place):
        fours = (numbers[begin : begin + 4] for begin in range(0, len(numbers), 4))
        found.append(Summary(first_time, *(None if four[0] is None else Spread(*four) for four in fours)))
    return found


def oldest_reading(connection: Connection, node_id: int) -> float | None:
    """When the first of the node's readings was that is still stored."""
    (found,) = fetch(connection, _OLDEST, (node_id,))
    return min((time for time in found if time is not None), default=None)


def delete_hours(connection: Connection, before: float) -> None:
    """Deletes hours that are old for readings that were kept until ``before``."""
    connection.execute(_DELETE_HOURS, {"before": before - HOURS_KEPT_S})


def _write(connection: Connection, node_id: int, period: Period, summaries: list[Summary]) -> None:
    rows = []
    for summary in summaries:
        spreads = (getattr(summary, quantity) for quantity in QUANTITIES)
        numbers = [astuple(spread) if spread else (None,) * 4 for spread in spreads]
        rows.append((node_id, period, summary.first_time, *chain.from_iterable(numbers)))
    write_many(connection, _WRITE, rows)
