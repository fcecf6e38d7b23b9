"""Summaries of readings that retention deletes, by hour and by day; hours for a year more, days for ever."""

from __future__ import annotations

from math import inf
from typing import Literal

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from jobsight_server.storage.engine import fetch
from jobsight_server.storage.samples import read_samples
from jobsight_server.storage.schema import nodes
from jobsight_server.storage.schema import sample_summaries as table
from jobsight_server.storage.summarise import QUANTITIES, Spread, Summary, merged, summarise

Period = Literal["hour", "day"]
LENGTH_S: dict[Period, float] = {"hour": 3600.0, "day": 86400.0}

HOURS_KEPT_S = 365 * 86400.0
"""For how long hours stay after their readings are deleted."""

_EVER = 1e18
_PARTS = ("min", "mean", "max", "weight")
_COLUMNS = [table.c[f"{quantity}_{part}"] for quantity in QUANTITIES for part in _PARTS]
_DELETE_HOURS = delete(table).where(
    table.c.node_id.in_(select(nodes.c.id)), table.c.period == "hour", table.c.first_time < bindparam("before")
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
    query = (
        select(table.c.first_time, *_COLUMNS)
        .where(table.c.node_id == node_id, table.c.period == period)
        .where(table.c.first_time >= max(since, -_EVER), table.c.first_time <= min(until, _EVER))
        .order_by(table.c.first_time)
    )
    found = []
    for first_time, *numbers in connection.execute(query):
        fours = (numbers[begin : begin + 4] for begin in range(0, len(numbers), 4))
        found.append(Summary(first_time, *(None if four[0] is None else Spread(*four) for four in fours)))
    return found


def oldest_reading(connection: Connection, node_id: int) -> float | None:
    """When the first of the node's readings was that is still stored."""
    query = (
        "SELECT (SELECT min(time) FROM samples WHERE node_id = asked.node_id), "
        "(SELECT min(first_time) FROM sample_chunks WHERE node_id = asked.node_id) "
        "FROM (SELECT CAST(? AS INTEGER) AS node_id) AS asked"
    )
    (found,) = fetch(connection, query, (node_id,))
    return min((time for time in found if time is not None), default=None)


def delete_hours(connection: Connection, before: float) -> None:
    """Deletes hours that are old for readings that were kept until ``before``."""
    connection.execute(_DELETE_HOURS, {"before": before - HOURS_KEPT_S})


def _write(connection: Connection, node_id: int, period: Period, summaries: list[Summary]) -> None:
    if not summaries:
        return
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    added = insert(table)
    replaced = {column.name: added.excluded[column.name] for column in _COLUMNS}
    statement = added.on_conflict_do_update(
        index_elements=[table.c.node_id, table.c.period, table.c.first_time], set_=replaced
    )
    rows = []
    for summary in summaries:
        row: dict[str, object] = {"node_id": node_id, "period": period, "first_time": summary.first_time}
        for quantity in QUANTITIES:
            spread: Spread | None = getattr(summary, quantity)
            values = (None,) * 4 if spread is None else (spread.least, spread.mean, spread.most, spread.weight)
            row |= {f"{quantity}_{part}": value for part, value in zip(_PARTS, values, strict=True)}
        rows.append(row)
    connection.execute(statement, rows)
