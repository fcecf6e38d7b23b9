"""Summaries of readings that retention deletes: least, mean and most of each hour and day; hours for a year more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from itertools import chain
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, select

from jobsight_server.storage.engine import fetch, upsert, write_many
from jobsight_server.storage.readings.sample_columns import UNKNOWN, Floats, SampleColumns, difference
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.schema import nodes, readings, sample_summaries

_SHORTEST_S = 1e-3  # less is rounding in an interval without known seconds


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Values between ``least`` and ``most``; ``weight`` of a rate is known seconds, of the memory in use readings."""

    least: float
    mean: float
    most: float
    weight: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A node's use from ``first_time`` on, for an hour or a day; None if unknown.

    ``in_bps``, ``out_bps``: bits per second; ``cpus_busy``: busy processors; ``memory_used_bytes``.
    """

    first_time: float
    in_bps: ValueRange | None
    out_bps: ValueRange | None
    memory_used_bytes: ValueRange | None
    cpus_busy: ValueRange | None


QUANTITIES = tuple(field.name for field in fields(Summary))[1:]


def summarise(readings: SampleColumns, count: int, length_s: float) -> list[Summary]:
    """Summarise the first ``count`` readings by periods of ``length_s`` from multiples of it; only those with readings.

    A rate is that between a reading and the next one, ``readings[count]`` included, if both have the total. It belongs
    to the period of the next one, with the known seconds between them as its weight.
    """
    at = readings.time[: count + 1]
    known_s = np.diff(at) - np.diff(readings.gap_s[: count + 1])
    memory = readings.memory_used_bytes[:count]
    by_quantity = {
        "in_bps": _spreads(at[1:], _rates(readings.net_in_bytes[: count + 1], known_s, 8.0), known_s, length_s),
        "out_bps": _spreads(at[1:], _rates(readings.net_out_bytes[: count + 1], known_s, 8.0), known_s, length_s),
        "memory_used_bytes": _spreads(at[:count], memory, np.ones(len(memory)), length_s),
        "cpus_busy": _spreads(at[1:], _rates(readings.cpu_busy_s[: count + 1], known_s, 1.0), known_s, length_s),
    }
    begins = sorted({begin for spreads in by_quantity.values() for begin in spreads})
    return [Summary(begin, **{name: by_quantity[name].get(begin) for name in QUANTITIES}) for begin in begins]


def merged(parts: Iterable[Summary], length_s: float) -> list[Summary]:
    """Merge summaries into one for each period of ``length_s``, in order of time."""
    found: dict[float, Summary] = {}
    for part in parts:
        begin = part.first_time // length_s * length_s
        before = found.get(begin)
        values = {
            name: _together(getattr(before, name) if before else None, getattr(part, name)) for name in QUANTITIES
        }
        found[begin] = Summary(begin, **values)
    return [found[begin] for begin in sorted(found)]


def _together(one: ValueRange | None, other: ValueRange | None) -> ValueRange | None:
    if one is None or other is None:
        return one or other
    weight = one.weight + other.weight
    mean = one.mean + (other.mean - one.mean) * (other.weight / weight)
    return ValueRange(min(one.least, other.least), mean, max(one.most, other.most), weight)


def _rates(totals: NDArray[Any], known_s: Floats, factor: float) -> Floats:
    """Return the rate of each interval, NaN if unknown."""
    known = ~np.isnan(totals) if totals.dtype == np.float64 else totals != UNKNOWN
    risen = difference(totals[1:], totals[:-1])
    has_rate = known[1:] & known[:-1] & (known_s > _SHORTEST_S)
    return np.where(has_rate, np.maximum(risen, 0) * factor / np.where(has_rate, known_s, 1.0), np.nan)


def _spreads(at: Floats, values: Floats, weights: Floats, length_s: float) -> dict[float, ValueRange]:
    """Return spreads by the beginning of the period that contains ``at``, which rises."""
    known = np.isfinite(values)
    if not known.any():
        return {}
    values, weights, begin = values[known], weights[known], np.floor(at[known] / length_s) * length_s
    first = np.flatnonzero(np.append(True, np.diff(begin) > 0))
    weight = np.add.reduceat(weights, first)
    mean = np.add.reduceat(values * weights, first) / weight
    least, most = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    rows = zip(begin[first].tolist(), least.tolist(), mean.tolist(), most.tolist(), weight.tolist(), strict=True)
    return {time: ValueRange(*numbers) for time, *numbers in rows}


Period = Literal["hour", "day"]
LENGTH_S: dict[Period, float] = {"hour": 3600.0, "day": 86400.0}

HOURS_KEPT_S = 365 * 86400.0
"""Time that hours stay after their readings are deleted."""

_EVER = 1e18
_COLUMNS = [f"{quantity}_{part}" for quantity in QUANTITIES for part in ("min", "mean", "max", "weight")]
_OF = sample_summaries.c
_READ = (
    select(*_OF["first_time", *_COLUMNS])
    .where(_OF.node_id == bindparam("node"), _OF.period == bindparam("of"))
    .where(_OF.first_time >= bindparam("since"), _OF.first_time <= bindparam("until"))
    .order_by(_OF.first_time)
)
_WRITE = upsert(sample_summaries, ("node_id", "period", "first_time", *_COLUMNS))


def summarise_before(connection: Connection, node_id: int, until: float) -> None:
    """Add all readings of the node before ``until`` to its summaries; call this once, when deleting them.

    The first reading that stays ends the last interval. A later reading within this interval makes its seconds count
    twice.
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
    """Read the node's hours or days that begin from ``since`` to ``until``, in order of time."""
    found = []
    place = {"node": node_id, "of": period, "since": max(since, -_EVER), "until": min(until, _EVER)}
    for first_time, *numbers in fetch(connection, _READ, place):
        fours = (numbers[begin : begin + 4] for begin in range(0, len(numbers), 4))
        found.append(Summary(first_time, *(None if four[0] is None else ValueRange(*four) for four in fours)))
    return found


def oldest_reading(connection: Connection, node_id: int) -> float | None:
    """Return the time of the node's oldest stored reading."""
    oldest: float | None = connection.scalar(select(func.min(readings.c.first_time)).filter_by(node_id=node_id))
    return oldest


def delete_hours(connection: Connection, before: float) -> None:
    """Delete hours that are too old if readings are kept from ``before`` on."""
    by_node = _OF.node_id.in_(select(nodes.c.id))  # in the order of the primary key
    old = delete(sample_summaries).where(by_node, _OF.period == "hour", _OF.first_time < before - HOURS_KEPT_S)
    connection.execute(old)


def _write(connection: Connection, node_id: int, period: Period, summaries: list[Summary]) -> None:
    rows = []
    for summary in summaries:
        spreads = (getattr(summary, quantity) for quantity in QUANTITIES)
        numbers = [astuple(spread) if spread else (None,) * 4 for spread in spreads]
        rows.append((node_id, period, summary.first_time, *chain.from_iterable(numbers)))
    write_many(connection, _WRITE, rows)
