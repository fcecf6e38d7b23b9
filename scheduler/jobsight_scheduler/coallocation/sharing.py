"""How jobs share overloaded uplinks: the factor by which each one's communication slows down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .clusters import LinkDemand

Sharing = Callable[[Sequence[LinkDemand], Sequence[float]], list[float]]
"""``sharing(demands, uplink_bps)``: a factor of at least 1 for each job that uses links."""


def saturation(demands: Sequence[LinkDemand], uplink_bps: Sequence[float]) -> list[float]:
    """The demand on each link, as a share of its capacity."""
    asked = [0.0] * len(uplink_bps)
    for wanted in demands:
        for link, rate in wanted:
            asked[link] += rate
    return [rate / capacity for rate, capacity in zip(asked, uplink_bps, strict=True)]


def proportional(demands: Sequence[LinkDemand], uplink_bps: Sequence[float]) -> list[float]:
    """Each job is slowed down by the saturation of its worst link: larger demands get more.

    (docs/use/definitions.md, Co-allocation)
    """
    found = saturation(demands, uplink_bps)
    if max(found, default=0.0) <= 1.0:
        return [1.0] * len(demands)
    return [max(1.0, max([found[link] for link, _ in wanted])) for wanted in demands]


def max_min(demands: Sequence[LinkDemand], uplink_bps: Sequence[float]) -> list[float]:
    """All jobs' rates over their busiest links rise together, until a job has its demand or a link is full.

    Progressive filling (Bertsekas and Gallager 1992, 6.5.2). Small demands are not slowed down by large ones;
    no job could get more without one that has no more than it getting less.
    """
    if max(saturation(demands, uplink_bps), default=0.0) <= 1.0:
        return [1.0] * len(demands)
    wants = [max([rate for _, rate in wanted]) for wanted in demands]
    rates = [0.0] * len(demands)
    left = list(uplink_bps)
    rising = set(range(len(demands)))
    while rising:
        pull = [0.0] * len(left)
        for j in rising:
            for link, rate in demands[j]:
                pull[link] += rate / wants[j]
        level = next(iter(rising))  # all that still rise are equally high
        by_link = min([(left[k] / pull[k], k) for k in range(len(left)) if pull[k] > 0.0])
        by_job = min([(wants[j] - rates[j], j) for j in rising])
        step = min(by_link[0], by_job[0])
        height = rates[level] + step
        for k, drawn in enumerate(pull):
            left[k] = max(0.0, left[k] - step * drawn)
        full = by_link[1] if by_link[0] <= by_job[0] else None
        for j in list(rising):
            rates[j] = height
            if wants[j] - height <= 1e-12 * wants[j] or (full is not None and any(k == full for k, _ in demands[j])):
                rising.discard(j)
        if full is None:
            rising.discard(by_job[1])
    return [max(1.0, want / rate) for want, rate in zip(wants, rates, strict=True)]


SHARINGS: dict[str, Sharing] = {"proportional": proportional, "max-min": max_min}
