"""One series for each thing that is measured: replicas, restarted exporters and renamed labels are joined in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.storage.readings.sample_columns import Floats

Key = tuple[str, ...]
Things = Mapping[Key, MetricSeries]
"""Values of the labels that tell things apart -> the thing's one series."""

_GAP = 2.5  # intervals between two values from which on another source may fill in
_FEWEST = 8  # values, to tell whether two series are of one thing
_ALIKE = 0.15  # largest part by which replicas of a series differ over a life
_LEAST_SHARE = 0.85  # of a card's bytes: a bridge does not count the headers of each packet
_SAME_SHARE, _SAME_BYTES = 0.03, 20_000.0  # most that they differ in an interval, beyond that share
_SAME_MOST = 0.05  # of the intervals may differ more


class ContradictionError(Exception):
    """Series that should be of one thing are of several."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a metric: ``summed`` are those of its parts within one scrape.

    ``apart`` are those that tell things apart, each with other names of it: the first that all series have counts. All
    others, such as a replica, a port or a type, say where a series comes from.
    """

    summed: Sequence[str] = ()
    apart: Sequence[Sequence[str]] = ()


def things(
    hosts: Sequence[Sequence[MetricSeries]], labels: Labels, *, is_counter: bool, is_steady: bool = True
) -> dict[Key, MetricSeries]:
    """Return the series of each thing on a node; if one of the ``hosts``, names of the node, has no values, those of
    the next one count. Series that are not steady may differ between replicas.

    Raises:
        ContradictionError: series of one thing differ at the same time, as of two clusters with the same names.
    """
    found: dict[Key, list[MetricSeries]] = {}
    every = [one for series in hosts for one in series]
    names = [_name_of(every, others) for others in labels.apart]
    for series in hosts:
        sources: dict[Key, dict[Key, list[MetricSeries]]] = {}
        for one in series:
            key = tuple(one.labels.get(name, "") for name in names)
            source = tuple(f"{name}={value}" for name, value in sorted(one.labels.items()) if name not in labels.summed)
            sources.setdefault(key, {}).setdefault(source, []).append(one)
        for key, parts in sources.items():
            found.setdefault(key, []).append(_joined([_sum(part) for part in parts.values()], is_counter, is_steady))
    return {key: _filled(series, is_counter=is_counter) for key, series in found.items()}


def _name_of(series: Iterable[MetricSeries], names: Sequence[str]) -> str:
    """Return the first of ``names`` that all series have, or else the first that one of them has."""
    have = [name for name in names if any(name in one.labels for one in series)]
    return next((name for name in have if all(name in one.labels for one in series)), have[0] if have else names[0])


def _sum(parts: Sequence[MetricSeries]) -> MetricSeries:
    """Return the sum of the parts at each time at which one of them was scraped."""
    if len(parts) == 1:
        return parts[0]
    time, place = np.unique(np.concatenate([part.time for part in parts]), return_inverse=True)
    total = np.zeros(len(time))
    np.add.at(total, place, np.concatenate([part.value for part in parts]))
    return MetricSeries(parts[0].labels, time, total)


def _joined(sources: Sequence[MetricSeries], is_counter: bool, is_steady: bool) -> MetricSeries:
    """Return one series from several sources of the same values: of a gauge all values, for its peak."""
    sources = sorted(sources, key=lambda one: -len(one.time))
    for other in sources[1:] if is_steady else ():
        if not _agree(sources[0], other, is_counter=is_counter):
            differing = sorted({*other.labels.items()} - {*sources[0].labels.items()})
            shown = ", ".join(f'{name}="{value}"' for name, value in differing)
            raise ContradictionError(f"series of one name contradict one another, such as those of {shown}: set labels")
    if len(sources) == 1 or is_counter:
        return _filled(sources, is_counter=is_counter)
    time, place = np.unique(np.concatenate([one.time for one in sources]), return_inverse=True)
    value = np.full(len(time), -np.inf)
    np.maximum.at(value, place, np.concatenate([one.value for one in sources]))
    return MetricSeries(sources[0].labels, time, value)


def _agree(series: MetricSeries, other: MetricSeries, *, is_counter: bool) -> bool:
    """Return whether two series may be of one thing: counters rise alike while both have values, gauges are alike."""
    within = (other.time >= series.time[0]) & (other.time <= series.time[-1])
    if np.count_nonzero(within) < _FEWEST:
        return True
    there, here = other.value[within], np.interp(other.time[within], series.time, series.value)
    if is_counter:
        steps = [np.maximum(np.diff(each), 0.0) for each in (here, there)]
        differs, most = abs(float(steps[0].sum() - steps[1].sum())), max(float(each.sum()) for each in steps)
        return differs <= _ALIKE * most + 2.0 * max(float(each.max()) for each in steps)
    means = float(here.mean()), float(there.mean())
    return abs(means[0] - means[1]) <= 2.0 * _ALIKE * max(map(abs, means))


def _filled(sources: Sequence[MetricSeries], *, is_counter: bool) -> MetricSeries:
    """Return the first series; where it has no values for long, those of the next ones."""
    result, *others = sources
    for other in others:
        where = _in_gaps(result, other)
        if is_counter:
            where &= _fits(result, other)
        time = np.concatenate([result.time, other.time[where]])
        order = np.argsort(time, kind="stable")
        value = np.concatenate([result.value, other.value[where]])
        result = MetricSeries(result.labels, time[order], value[order])
    return result


def _in_gaps(series: MetricSeries, other: MetricSeries) -> NDArray[np.bool_]:
    """Return which values of ``other`` are where ``series`` has none."""
    longest = max((one.time for one in (series, other)), key=len)
    interval_s = float(np.median(np.diff(longest))) if len(longest) > 1 else 0.0
    edges = np.concatenate([[-np.inf], series.time, [np.inf]])
    after = np.searchsorted(edges, other.time, "right")
    before_s, after_s = other.time - edges[after - 1], edges[np.minimum(after, len(edges) - 1)] - other.time
    return np.asarray((before_s + after_s > _GAP * interval_s) & (np.minimum(before_s, after_s) > interval_s / 2))


def _fits(series: MetricSeries, other: MetricSeries) -> NDArray[np.bool_]:
    """Return which values of ``other`` continue the counter ``series``, or restarted.

    A source may be scraped a moment later than it says; its value must not look like a reset.
    """
    values = np.concatenate([[-np.inf], series.value, [np.inf]])
    after = np.searchsorted(series.time, other.time, "right") + 1
    before, following = values[after - 1], values[after]
    goes_on = (other.value >= before) | (other.value < before / 2)
    leads_on = (other.value <= following) | (following < other.value / 2)
    return np.asarray(goes_on & leads_on)


def zero_after_end(parts: Sequence[MetricSeries]) -> list[MetricSeries]:
    """Return gauges that are 0 before they begin and after they end, while others have values: not their last value."""
    time = np.unique(np.concatenate([part.time for part in parts])) if parts else np.empty(0)
    return [_with_zeros(part, time) if len(part.time) else part for part in parts]


def _with_zeros(part: MetricSeries, time: Floats) -> MetricSeries:
    interval_s = float(np.median(np.diff(part.time))) if len(part.time) > 1 else 0.0
    first, last = part.time[0] - _GAP * interval_s, part.time[-1] + _GAP * interval_s
    # Right beside its ends, as readers draw lines between values.
    before = [part.time[0] - 1e-3] if len(time) and time[0] < first else []
    after = [part.time[-1] + 1e-3] if len(time) and time[-1] > last else []
    times = np.concatenate([before, part.time, after])
    return MetricSeries(part.labels, times, np.concatenate([[0.0] * len(before), part.value, [0.0] * len(after)]))


def same_traffic(received: Things, sent: Things) -> dict[Key, Key]:
    """Return devices that carry a larger one's traffic, such as a bridge its card's: device -> the larger one.

    So do all others together if they add up to the largest, such as the cards of a bond.
    """
    both = {device: (received[device], sent[device]) for device in received.keys() & sent.keys()}
    largest_first = sorted(both, key=lambda device: (-sum(map(_moved, both[device])), device))
    found: dict[Key, Key] = {}
    for number, device in enumerate(largest_first):
        for larger in largest_first[:number]:
            theirs = both[larger]
            if larger not in found and any(_move_together(both[device], pair) for pair in (theirs, theirs[::-1])):
                found[device] = larger
                break
    parts = [device for device in largest_first[1:] if device not in found]
    if len(parts) > 1:  # cards of a bond, or VLANs of a card, each under a name of its own
        together = [_sum([both[device][way] for device in parts]) for way in (0, 1)]
        if _move_together(together, both[largest_first[0]]):
            found |= dict.fromkeys(parts, largest_first[0])
    return found


def _moved(series: MetricSeries) -> float:
    return float(np.ptp(series.value)) if len(series.value) else 0.0


def _move_together(ours: Sequence[MetricSeries], theirs: Sequence[MetricSeries]) -> bool:
    """Return whether counters of both directions rise alike between nearly all readings."""
    is_used = False
    for one, other in zip(ours, theirs, strict=True):
        time = np.intersect1d(one.time, other.time)
        if len(time) <= _FEWEST:
            return False
        rise, expected = (np.diff(each.value[np.isin(each.time, time)]) for each in (one, other))
        share = rise.sum() / expected.sum() if expected.sum() > 0 else 1.0
        differs = np.abs(rise - share * expected) > _SAME_SHARE * np.abs(expected) + _SAME_BYTES
        if not (_LEAST_SHARE <= share <= 1 / _LEAST_SHARE or expected.sum() + rise.sum() < _SAME_BYTES * len(rise)):
            return False
        if differs.mean() > _SAME_MOST:
            return False
        is_used |= bool(rise.sum() > _SAME_BYTES * len(rise))
    return is_used
