"""Choice of the memory of a cluster's nodes, given a budget and a log (Yom-Tov and Aridor 2006, section 4).

A cluster has nodes of the largest size, which can run every job, and the rest of the budget buys nodes of a second
size. The smaller that size, the more nodes; but fewer jobs can be lowered to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobsight_papers.overprovisioning.cluster.cases import MemoryCase
from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs
from jobsight_papers.overprovisioning.cluster.nodes import MIB, NodeClass
from jobsight_papers.overprovisioning.results import helped_processors


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of a node without memory, and of a MB of memory, in the currency of the budget."""

    node: float
    mb: float

    def of(self, memory_mb: float) -> float:
        """Return the price of one node with ``memory_mb``."""
        return self.node + self.mb * memory_mb


@dataclass(frozen=True, slots=True)
class Design:
    """A cluster within the budget. ``helped_processors`` is the horizontal axis of Figure 8."""

    classes: str
    second_mb: float
    nodes: int
    cost: float
    helped_processors: float


def designs(
    jobs: MemoryJobs, first: NodeClass, budget: float, prices: Prices, sizes_mb: Sequence[float]
) -> list[Design]:
    """Return a design for each size with at least one node in the budget; most helped processors first.

    Raises:
        ValueError: the budget does not buy the first nodes and one more of any size.
    """
    largest_mb = first.memory_bytes / MIB
    left = budget - first.count * prices.of(largest_mb)
    found = []
    for size in sizes_mb:
        count = int(left // prices.of(size))
        if not 0.0 < size <= largest_mb or count < 1:
            continue
        found.append(
            Design(
                classes=f"{first.count}x{largest_mb:g}M,{count}x{size:g}M",
                second_mb=size,
                nodes=first.count + count,
                cost=first.count * prices.of(largest_mb) + count * prices.of(size),
                helped_processors=helped_processors(jobs, size * MIB),
            )
        )
    if not found:
        raise ValueError(
            f"a budget of {budget:g} leaves {left:g} after {first.count} nodes with {largest_mb:g} MB: too little for "
            "one node of another size"
        )
    return sorted(found, key=lambda design: (-design.helped_processors, -design.nodes))


def verifying_case(design: Design, estimator: str, policy: str, load: float, reference_nodes: int) -> MemoryCase:
    """Return the simulation of ``design`` with jobs that would load ``reference_nodes`` to ``load``."""
    return MemoryCase(design.classes, policy=policy, load=load * reference_nodes / design.nodes, estimator=estimator)
