"""Clusters with an uplink each: a spread job's demand on the links, and how jobs share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        ValueError: no cluster, a cluster without processors, or an uplink without capacity.
    """

    processors: tuple[int, ...]
    uplink_bps: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.processors or len(self.processors) != len(self.uplink_bps):
            raise ValueError(
                f"{len(self.processors)} clusters with {len(self.uplink_bps)} uplinks: give each cluster one uplink"
            )
        for k, (count, capacity) in enumerate(zip(self.processors, self.uplink_bps, strict=True)):
            if count < 1:
                raise ValueError(f"cluster {k} has {count} processors; give at least 1")
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
    return tuple(_demands(allocation, bandwidth_bps))


def _demands(allocation: Sequence[tuple[int, int]], bandwidth_bps: float) -> Iterator[tuple[int, float]]:
    whole = sum([count for _, count in allocation])
    each = bandwidth_bps / (whole - 1)
    for cluster, count in allocation:
        yield cluster, count * (whole - count) * each


Sharing = Callable[[Sequence[LinkDemand], Sequence[float]], list[float]]
"""``sharing(demands, uplink_bps)``: a factor of at least 1 for each job that uses links."""


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
