"""Stored readings of whole days, as tables for other programs: one row a reading."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, func, select

from jobsight_server.storage.sample_columns import MODULUS, UNKNOWN, SampleColumns
from jobsight_server.storage.samples import read_samples
from jobsight_server.storage.schema import nodes, sample_chunks, samples

DAY_S = 86400.0

READING_COLUMNS = {
    "time": "time",
    "node": "text",
    "node_cpus": "whole",
    "interval_s": "number",
    "gap_s": "number",
    "received_bytes": "whole",
    "sent_bytes": "whole",
    "infiniband_received_bytes": "whole",
    "infiniband_sent_bytes": "whole",
    "cpu_busy_s": "number",
    "memory_used_bytes": "whole",
}
"""Kind by name, as in docs/operate/operations.md."""

_RISES = {
    "gap_s": "gap_s",
    "received_bytes": "net_in_bytes",
    "sent_bytes": "net_out_bytes",
    "infiniband_received_bytes": "ib_in_bytes",
    "infiniband_sent_bytes": "ib_out_bytes",
    "cpu_busy_s": "cpu_busy_s",
}


class StoredNode(NamedTuple):
    """A node, and the first and last day, counted from 1970-01-01, of which readings are stored."""

    id: int
    cluster: str
    name: str
    cpus: int
    first_day: int
    last_day: int


def stored_nodes(connection: Connection, cluster: str | None, pattern: str) -> list[StoredNode]:
    """The nodes with readings whose name matches the shell ``pattern``, by cluster and name."""
    query = select(nodes.c.id, nodes.c.cluster, nodes.c.name, nodes.c.cpus).order_by(nodes.c.cluster, nodes.c.name)
    if cluster is not None:
        query = query.where(nodes.c.cluster == cluster)
    matching = [node for node in connection.execute(query).all() if fnmatchcase(node.name, pattern)]
    spans = [_span(connection, node.id) for node in matching]
    return [
        StoredNode(*node, int(span[0] // DAY_S), int(span[1] // DAY_S))
        for node, span in zip(matching, spans, strict=True)
        if span is not None
    ]


def day_text(day: int) -> str:
    """The UTC date of a day counted from 1970-01-01.

    >>> day_text(20779)
    '2026-11-22'
    """
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()


def readings_of_day(engine: Engine, of: list[StoredNode], day: int) -> Generator[dict[str, Any]]:
    """For each node with readings on ``day``, its columns: arrays, whose masked values are unknown, or one value."""
    for node in of:
        if not node.first_day <= day <= node.last_day:
            continue
        since, until = day * DAY_S, nextafter((day + 1) * DAY_S, -inf)
        # A connection for each: a reader of hours would let the write-ahead log grow.
        with engine.connect().execution_options(reading=True) as connection:
            readings = read_samples(connection, node.id, since, until, around=1)
        readings = readings[readings.time <= until]
        first = int(np.searchsorted(readings.time, since))
        if first < len(readings):
            yield {"node": node.name, "node_cpus": node.cpus, **_columns(readings, first)}


def _span(connection: Connection, node_id: int) -> tuple[float, float] | None:
    # One look-up each: together they would read all rows of the node.
    columns = (
        (samples, func.min(samples.c.time)),
        (samples, func.max(samples.c.time)),
        (sample_chunks, func.min(sample_chunks.c.first_time)),
        (sample_chunks, func.max(sample_chunks.c.last_time)),
    )
    found = [connection.scalar(select(column).where(table.c.node_id == node_id)) for table, column in columns]
    times = [time for time in found if time is not None]
    return (min(times), max(times)) if times else None


def _columns(readings: SampleColumns, first: int) -> dict[str, Any]:
    """Those of the readings from ``first`` on; totals as what they rose by since the reading before."""
    rises = {name: _risen(getattr(readings, total))[first:] for name, total in _RISES.items()}
    memory = readings.memory_used_bytes[first:]
    known = np.isfinite(memory)
    return {
        "time": readings.time[first:],
        "interval_s": _risen(readings.time)[first:],
        **rises,
        "memory_used_bytes": np.ma.masked_array(np.where(known, memory, 0.0).astype(np.int64), ~known),
    }


def _risen(totals: NDArray[Any]) -> np.ma.MaskedArray[Any, Any]:
    """What ``totals`` rose by from one to the next; masked where one of the two is unknown, as the first."""
    unknown = np.isnan(totals) if totals.dtype == np.float64 else totals == UNKNOWN
    risen: NDArray[Any] = np.zeros_like(totals)
    risen[1:] = np.diff(np.where(unknown, 0, totals))
    if totals.dtype != np.float64:
        risen = (risen + MODULUS // 2) % MODULUS - MODULUS // 2
    masked = unknown | np.append(True, unknown[:-1])
    # A CPU's busy time is stored in microseconds, so it may seem to fall by one.
    return np.ma.masked_array(np.where(masked, 0, np.maximum(risen, 0)), masked)
