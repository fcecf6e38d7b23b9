"""The one reader of nodes' readings.

Each statement reads rows that follow one another, and corrects their counters (counters).
"""

from __future__ import annotations

from functools import cache
from math import inf, nextafter

from sqlalchemy import Connection

from jobsight_server.storage.engine import fetch
from jobsight_server.storage.readings.counters import corrected
from jobsight_server.storage.readings.sample_columns import SampleColumns

CHUNK_S = 6 * 3600.0
"""Longest time of one row."""

_OVERLAP = (
    "SELECT first_time FROM readings WHERE node_id = ? AND first_time >= ? AND first_time <= ? AND last_time >= ?"
)
# Of the next rows beyond the time, as many as have ``around`` readings together.
_BEYOND = (
    "SELECT first_time FROM (SELECT first_time, sum(samples) OVER (ORDER BY {order}) - samples AS nearer FROM "
    "(SELECT id, first_time, samples FROM readings WHERE node_id = ? AND {beyond} AND samples > 0 "
    "ORDER BY {order} LIMIT {around}) AS next) AS counted WHERE nearer < {around}"
)


def read_samples(connection: Connection, node_id: int, since: float, until: float, around: int = 0) -> SampleColumns:
    """Return the node's readings from ``since`` to ``until``, and at least ``around`` before and after them if it has
    some. Totals count from the first one.
    """
    overlap, before, after = (since - CHUNK_S, until, since), (node_id, since, since), (node_id, until)
    asked = (node_id, node_id, *overlap, *(before if around else ()), until, *(after if around else ()), until)
    columns = corrected(fetch(connection, _statement(around), asked)).columns
    return columns if around else columns[columns.between(since, nextafter(until, inf))]


@cache
def _statement(around: int) -> str:
    low, high = _OVERLAP, "NULL"
    if around:
        back, on = "first_time DESC, id DESC", "first_time, id"
        low += " UNION ALL " + _BEYOND.format(order=back, beyond="first_time < ? AND last_time < ?", around=around)
        high = _BEYOND.format(order=on, beyond="first_time > ?", around=around)
        high = f"(SELECT max(first_time) FROM ({high}) AS after)"
    return (
        "SELECT r.node_id, r.boot, b.boot_id, b.interfaces, r.packed FROM readings r JOIN boots b ON b.id = r.boot "
        f"WHERE r.node_id = ? AND r.first_time >= coalesce((SELECT min(first_time) FROM ({low}) AS low), ?) "
        f"AND r.first_time <= coalesce({high}, ?) ORDER BY r.first_time, r.id"
    )


def lock_name(node_id: int) -> str:
    """Return the name of the lock for joining rows of the node, or summarising and deleting them."""
    return f"jobsight samples {node_id}"
