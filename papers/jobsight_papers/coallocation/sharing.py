"""Fair sharing of links, to see whether it would make forecasts needless."""

from __future__ import annotations

from collections.abc import Sequence

from jobsight_scheduler.coallocation.clusters import LinkDemand, Sharing, proportional, saturation


def max_min(demands: Sequence[LinkDemand], uplink_bps: Sequence[float]) -> list[float]:
    """Raise all jobs' rates over their busiest links together, until a job has its demand or a link is full.

    Progressive filling (Bertsekas and Gallager 1992, 6.5.2). Large demands do not slow small ones; no job can get more
    unless one with no more than it gets less.
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
        level = next(iter(rising))  # all rates that still rise are equal
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
