"""Traffic and CPU time of one job on one node: pure arithmetic on readings (docs/use/definitions.md, Bandwidth).

Between two readings the counters are assumed to rise evenly. On a shared node, each piece between two events (a start
or end of a job) is split by the processors that jobs hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from jobsight_server.profiler.exactness import UNCOUNTED, Missing
from jobsight_server.profiler.runs import Readings
from jobsight_server.storage.readings.sample_columns import Floats
from jobsight_server.storage.readings.sent import INFINIBAND

# Largest unknown share of a life for a job to have a value.
MOST_UNKNOWN = 0.1
# Counters move in steps; over a shorter time, a rate means nothing. Below a second, because intervals of agents that
# read every second jitter.
SHORTEST_PEAK_S = 0.5


class JobInterval(NamedTuple):
    """A job's time on a node, ``start`` to ``end`` in the node's clock, with ``processors`` of it."""

    start: float
    end: float
    processors: int


@dataclass(frozen=True, slots=True)
class Rates:
    """The job's rate per second, on average and at most in a sampling interval; one entry per counter."""

    mean: Floats
    peak: Floats | None


def network(readings: Readings, interval: JobInterval, others: Sequence[JobInterval]) -> Rates | Missing:
    """Return bytes per second in and out."""
    return _rates("network", readings, (readings.net_in_bytes, readings.net_out_bytes), interval, others)


def cpu(readings: Readings, interval: JobInterval, others: Sequence[JobInterval]) -> Rates | Missing:
    """CPU seconds per second."""
    return _rates("CPU", readings, (readings.cpu_busy_s,), interval, others)


def _rates(
    what: str, readings: Readings, counters: Sequence[Floats], interval: JobInterval, others: Sequence[JobInterval]
) -> Rates | Missing:
    if not len(readings.time):
        return Missing("no samples of {node}")
    has = np.logical_and.reduce([np.isfinite(counter) for counter in counters])
    if not has.any():
        return Missing(f"no {what} readings of {{node}}")
    near = _around(readings.time[has], interval)
    time, gap = readings.time[has][near], readings.gap_s[has][near]
    columns = np.array([counter[has][near] for counter in counters])
    if len(time) < 2:
        return Missing(f"fewer than 2 {what} readings of {{node}} around its life")
    if (columns[:, 1:] < columns[:, :-1]).any():
        return Missing(f"the {what} counters of {{node}} run backwards")
    edges = pieces_of(time, interval.start, interval.end, others)
    # Plain operators: numpy's ``clip`` and ``diff`` take longer than their work on such short arrays.
    within = np.minimum(np.maximum(edges, time[0]), time[-1])
    unknown_until = np.interp(within, time, gap) + (edges - within)
    widths = edges[1:] - edges[:-1]
    known = np.minimum(np.maximum(widths - (unknown_until[1:] - unknown_until[:-1]), 0.0), widths)
    known_s = float(known.sum())
    if known_s < (1.0 - MOST_UNKNOWN) * (interval.end - interval.start):
        share = round(MOST_UNKNOWN * 100)
        return Missing(f"the {what} readings of {{node}} leave more than {share} % of its life unknown")
    at_edges = np.array([np.interp(within, time, column) for column in columns])
    amounts = at_edges[:, 1:] - at_edges[:, :-1]
    amounts = np.where(known > 0, amounts, 0.0) * shares_of(edges, interval, others)
    return Rates(amounts.sum(axis=1) / known_s, _peak(edges, time, interval, known, amounts))


def _peak(edges: Floats, time: Floats, interval: JobInterval, known: Floats, amounts: Floats) -> Floats | None:
    """Return the highest rate over a whole sampling interval, cut at the boundaries of the life."""
    at = edges.searchsorted(pieces_of(time, interval.start, interval.end, ()))
    known_until = np.zeros(len(edges))
    known.cumsum(out=known_until[1:])
    amount_until = np.zeros((len(amounts), len(edges)))
    amounts.cumsum(axis=1, out=amount_until[:, 1:])
    known_until, amount_until, bounds = known_until[at], amount_until[:, at], edges[at]
    seconds = known_until[1:] - known_until[:-1]
    usable = (seconds >= SHORTEST_PEAK_S) & (seconds > 0.999 * (bounds[1:] - bounds[:-1]))
    if not usable.any():
        return None
    moved = amount_until[:, 1:] - amount_until[:, :-1]
    peak: Floats = (moved[:, usable] / seconds[usable]).max(axis=1)
    return peak


def _around(time: Floats, interval: JobInterval) -> slice:
    """Return the readings from the last at or before the start to the first at or after the end.

    Two readings around a boundary that are further apart than the life is long show nothing about it: the outer one is
    left out, and its time counts as unknown.
    """
    life = interval.end - interval.start
    first = int(np.searchsorted(time, interval.start, "right")) - 1
    if first < 0 or (time[first] < interval.start and first + 1 < len(time) and time[first + 1] - time[first] > life):
        first += 1
    last = int(np.searchsorted(time, interval.end, "left"))
    if last == len(time) or (time[last] > interval.end and last > 0 and time[last] - time[last - 1] > life):
        last -= 1
    return slice(first, max(first, last + 1))


def pieces_of(time: Floats, start: float, end: float, others: Sequence[JobInterval]) -> Floats:
    """Return the boundaries of the pieces of [start, end]: readings, and events of the node's other jobs."""
    inside = time[np.searchsorted(time, start, "right") : np.searchsorted(time, end, "left")]
    events = [event for other in others for event in (other.start, other.end) if start < event < end]
    edges = np.concatenate(([start], inside, [end]))
    return np.unique(np.concatenate((edges, events))) if events else edges


def shares_of(edges: Floats, interval: JobInterval, others: Sequence[JobInterval]) -> Floats:
    """Return the job's share of each piece, by processors held; the job itself is always there."""
    if not others:
        return np.ones(len(edges) - 1)
    middle = (edges[1:] + edges[:-1]) / 2
    starts, ends, processors = np.array(others, dtype=np.float64).T
    there = (starts[:, None] <= middle) & (middle < ends[:, None])
    shares: Floats = interval.processors / (interval.processors + processors @ there)
    return shares


SUM = "sum"
# Bits per second and node of an idle network: subnet manager, address resolution.
LEAST_TRAFFIC_BPS = 10_000.0

Speeds = Mapping[str, float]
"""Fabric -> speed of its fastest link in bits per second, 0 if unknown."""


class StoredLink(Struct):
    """The fields of a stored interface that matter here."""

    kind: str
    speed_bps: float | None = None
    uncounted: bool = False


# Nodes of one kind have the same.
_links = lru_cache(1000)(msgspec.json.Decoder(list[StoredLink]).decode)


def link_speeds(interfaces: str) -> Speeds:
    """Return the fabrics of a node, from its interfaces as stored (JSON)."""
    found: dict[str, float] = {}
    for interface in _links(interfaces):
        found[interface.kind] = max(found.get(interface.kind, 0.0), interface.speed_bps or 0.0)
    return found


def speeds_of_links(interfaces: str) -> list[float | None]:
    """Return the speed of each link of a node, from its interfaces as stored (JSON); None if unknown."""
    return [interface.speed_bps or None for interface in _links(interfaces)]


def uncounted(interfaces: str) -> dict[str, str]:
    """Return why the node's bandwidth may be too low: one of its ``interfaces``, as stored, counts no bytes."""
    is_any = any(interface.uncounted for interface in _links(interfaces))
    return {"bandwidth": UNCOUNTED} if is_any else {}


def by_fabric(readings: Readings, speeds: Speeds) -> dict[str, Readings]:
    """Return the readings of each fabric; all under ``SUM`` if their release did not separate fabrics."""
    fast = next((kind for kind in INFINIBAND if kind in speeds), INFINIBAND[0])
    slow = next((kind for kind in speeds if kind not in INFINIBAND), None)
    if readings.infiniband is None:
        if slow is None:
            return {SUM: readings} if speeds else {}
        return {SUM: readings} if fast in speeds else {slow: readings}
    received, sent = readings.infiniband
    parts = {fast: replace(readings, net_in_bytes=received, net_out_bytes=sent)}
    if slow is not None:
        rest = (readings.net_in_bytes - received, readings.net_out_bytes - sent)
        parts[slow] = replace(readings, net_in_bytes=rest[0], net_out_bytes=rest[1])
    return parts


def fastest(bits_per_s: Mapping[str, float], speeds: Speeds, nodes: int) -> str:
    """Return the fastest of the fabrics in ``bits_per_s`` that had traffic on these many nodes, else the fastest of
    all.
    """
    busy = [name for name, moved in bits_per_s.items() if moved >= LEAST_TRAFFIC_BPS * nodes]
    return max(busy or bits_per_s, key=lambda name: (speeds.get(name, 0.0), name in INFINIBAND))
