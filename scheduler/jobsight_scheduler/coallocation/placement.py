"""Placements: one cluster for a job that starts now, else several, as far as the placement allows.

A placement is a plain function of the processors wanted, the bandwidth expected, the free processors and the bookings.
All prefer the single cluster with the fewest free processors that suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobsight_scheduler.coallocation.clusters import Allocation, demand

PlacementPolicy = Callable[[int, float, Sequence[int], Sequence[float]], Allocation | None]
"""``place(processors, bandwidth_bps, free, spare_bps)``: None if the job has to wait.

``spare_bps`` is the bookable bandwidth of each uplink; it is below 0 if bookings were too small.
"""


def none(processors: int, _bandwidth_bps: float, free: Sequence[int], _spare_bps: Sequence[float]) -> Allocation | None:
    """Use one cluster or none."""
    best, least = -1, 0
    for cluster, count in enumerate(free):
        if count >= processors and (best < 0 or count < least):
            best, least = cluster, count
    return ((best, processors),) if best >= 0 else None


def naive(processors: int, bandwidth_bps: float, free: Sequence[int], spare_bps: Sequence[float]) -> Allocation | None:
    """Spread whenever there are processors, over the clusters with the most of them."""
    if sum(free) < processors:
        return None
    return none(processors, bandwidth_bps, free, spare_bps) or _spread(processors, free, range(len(free)))


def aware(processors: int, bandwidth_bps: float, free: Sequence[int], spare_bps: Sequence[float]) -> Allocation | None:
    """Spread only if each uplink can carry the job's expected demand.

    Clusters with the most free processors come first: an uneven split has the lowest demand. While a link cannot carry
    it, the cluster that lacks most is left out and the rest is tried again.
    """
    if sum(free) < processors:
        return None
    single = none(processors, bandwidth_bps, free, spare_bps)
    if single is not None:
        return single
    clusters = [cluster for cluster, count in enumerate(free) if count and spare_bps[cluster] > 0.0]
    while (spread := _spread(processors, free, clusters)) is not None:
        lacking = [(rate - spare_bps[link], link) for link, rate in demand(spread, bandwidth_bps)]
        lack, worst = max(lacking, default=(0.0, -1))
        if lack <= 0.0:
            return spread
        clusters.remove(worst)
    return None


def _spread(processors: int, free: Sequence[int], clusters: Sequence[int]) -> Allocation | None:
    """Take ``processors`` from the ``clusters`` with the most free ones first; None if there are too few."""
    found = []
    for cluster in sorted(clusters, key=lambda k: (-free[k], k)):
        count = min(processors, free[cluster])
        if count:
            found.append((cluster, count))
            processors -= count
        if not processors:
            return tuple(found)
    return None


@dataclass(frozen=True, slots=True)
class SpreadPlacement:
    """``place``, whether it ever spreads a job, whether it needs the bandwidth, and whether it watches the links.

    One that watches uses no forecasts: bookable is the unused bandwidth of an uplink, measured after the last start or
    end of a spread job.
    """

    place: PlacementPolicy
    spreads: bool = True
    asks: bool = False
    watches: bool = False


PLACEMENTS: dict[str, SpreadPlacement] = {
    "none": SpreadPlacement(none, spreads=False),
    "naive": SpreadPlacement(naive),
    "aware": SpreadPlacement(aware, asks=True),
    # Without a bandwidth a job demands nothing: it avoids links without spare capacity, or waits.
    "reactive": SpreadPlacement(aware, watches=True),
}
