"""Readings of a node summarised: least, mean and most of each hour or day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_server.storage.sample_columns import UNKNOWN, Floats, SampleColumns, difference

_SHORTEST_S = 1e-3  # less is what rounding leaves of an interval of which nothing is known


@dataclass(frozen=True, slots=True)
class Spread:
    """Values between ``least`` and ``most``; ``weight`` of a rate is known seconds, of the memory in use readings."""

    least: float
    mean: float
    most: float
    weight: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a node from ``first_time`` on, for an hour or a day; None where nothing is.

    ``in_bps``, ``out_bps``: bits per second; ``cpus_busy``: busy processors; ``memory_used_bytes``.
    """

    first_time: float
    in_bps: Spread | None
    out_bps: Spread | None
    memory_used_bytes: Spread | None
    cpus_busy: Spread | None


QUANTITIES = tuple(field.name for field in fields(Summary))[1:]


def summarise(readings: SampleColumns, count: int, length_s: float) -> list[Summary]:
    """The first ``count`` readings, by periods of ``length_s`` that begin at multiples of it; those with readings.

    A rate is that between a reading and the next one, ``readings[count]`` included, where both have the total. It
    belongs to the period of the next one, and weighs as many seconds as are known of the time between.
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
    """One summary for each period of ``length_s``, from those of parts of it, in order of time."""
    found: dict[float, Summary] = {}
    for part in parts:
        begin = part.first_time // length_s * length_s
        before = found.get(begin)
        values = {
            name: _together(getattr(before, name) if before else None, getattr(part, name)) for name in QUANTITIES
        }
        found[begin] = Summary(begin, **values)
    return [found[begin] for begin in sorted(found)]


def _together(one: Spread | None, other: Spread | None) -> Spread | None:
    if one is None or other is None:
        return one or other
    weight = one.weight + other.weight
    mean = one.mean + (other.mean - one.mean) * (other.weight / weight)
    return Spread(min(one.least, other.least), mean, max(one.most, other.most), weight)


def _rates(totals: NDArray[Any], known_s: Floats, factor: float) -> Floats:
    """Of each interval, NaN where it is unknown."""
    known = ~np.isnan(totals) if totals.dtype == np.float64 else totals != UNKNOWN
    risen = difference(totals[1:], totals[:-1])
    has_rate = known[1:] & known[:-1] & (known_s > _SHORTEST_S)
    return np.where(has_rate, np.maximum(risen, 0) * factor / np.where(has_rate, known_s, 1.0), np.nan)


def _spreads(at: Floats, values: Floats, weights: Floats, length_s: float) -> dict[float, Spread]:
    """By the beginning of the period that ``at``, which rises, is in."""
    known = np.isfinite(values)
    if not known.any():
        return {}
    values, weights, begin = values[known], weights[known], np.floor(at[known] / length_s) * length_s
    first = np.flatnonzero(np.append(True, np.diff(begin) > 0))
    weight = np.add.reduceat(weights, first)
    mean = np.add.reduceat(values * weights, first) / weight
    least, most = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    rows = zip(begin[first].tolist(), least.tolist(), mean.tolist(), most.tolist(), weight.tolist(), strict=True)
    return {time: Spread(*numbers) for time, *numbers in rows}
