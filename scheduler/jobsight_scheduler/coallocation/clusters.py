"""Clusters with an uplink each: a spread job's demand on the links, and how jobs share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

Allocation = tuple[tuple[int, int], ...]
"""(cluster, processors there) of one job, each cluster once."""

LinkDemand = tuple[tuple[int, float], ...]
"""(link, bits per second that the job would move over it if it were alone); empty on a single cluster."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Processors and uplink capacity, in bits per second, of each cluster.

    Raises:
        ValueError: an uplink without capacity.
    """

    processors: tuple[int, ...]
    uplink_bps: tuple[float, ...]

    def __post_init__(self) -> None:
        for k, capacity in enumerate(self.uplink_bps):
            if not (capacity > 0.0 and isfinite(capacity)):
                raise ValueError(
                    f"the uplink of cluster {k} carries {capacity} bit/s: jobs spread over it would never end; "
                    "give more than 0, or place without spreading"
                )

    @property
    def total(self) -> int:
        """Processors of all clusters."""
        return sum(self.processors)

    @property
    def largest(self) -> int:
        """Processors of the largest cluster: larger jobs are spread, whatever the placement."""
        return max(self.processors)


def demand(allocation: Allocation, bandwidth_bps: float) -> LinkDemand:
    """Return the demand of a spread job on the uplinks: ``n_k b (N - n_k) / (N - 1)`` each, all-to-all traffic."""
    if len(allocation) < 2 or bandwidth_bps <= 0.0:
        return ()
    whole = sum([count for _, count in allocation])
    each = bandwidth_bps / (whole - 1)
    return tuple([(cluster, count * (whole - count) * each) for cluster, count in allocation])


def saturation(demands: Sequence[LinkDemand], uplink_bps: Sequence[float]) -> list[float]:
    """Return the demand on each link, as a share of its capacity."""
    asked = [0.0] * len(uplink_bps)
    for wanted in demands:
        for link, rate in wanted:
            asked[link] += rate
    return [rate / capacity for rate, capacity in zip(asked, uplink_bps, strict=True)]


def proportional(demands: Sequence[LinkDemand], uplink_bps: Sequence[float]) -> list[float]:
    """Slow each job by the saturation of its worst link: larger demands get more.

    (docs/use/definitions.md, Co-allocation)
    """
    found = saturation(demands, uplink_bps)
    if max(found, default=0.0) <= 1.0:
        return [1.0] * len(demands)
    return [max(1.0, max([found[link] for link, _ in wanted])) for wanted in demands]
