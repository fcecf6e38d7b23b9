"""The runs of the paper (Yom-Tov and Aridor 2006), and runs chosen by options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobsight_papers.overprovisioning.cluster.cases import MemoryCase
from jobsight_papers.overprovisioning.cluster.nodes import MIB, parse_classes
from jobsight_papers.overprovisioning.fill_orders import ORDERS
from jobsight_papers.overprovisioning.variants import PAPER_VARIANTS

CLASSES = "512x32M,512x24M"
SECOND_MB = 24.0
FIGURE_8_MB = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 29, 30, 31, 32)
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
SATURATED = 1.2
PUBLISHED_ORDER = "smallest-fit"
PUBLISHED_PAIR = ("none", "successive-approximation")


def with_second(classes: str, second_mb: float) -> str:
    """Return ``classes`` with ``second_mb`` for its smallest nodes, or for half of the nodes of a single class.

    Raises:
        ValueError: there are more than two classes, or ``second_mb`` is more than the largest nodes have.
    """
    parsed = parse_classes(classes)
    if len(parsed) > 2:
        raise ValueError(f"{classes}: a second size can only be set for two classes")
    largest = parsed[-1].memory_bytes / MIB
    if not 0.0 < second_mb <= largest:
        raise ValueError(f"{second_mb:g} MB for the smaller nodes: the larger ones have {largest:g} MB")
    first, second = parsed[-1].count, parsed[0].count
    if len(parsed) == 1:
        first, second = -(-first // 2), first // 2
    return f"{first}x{largest:g}M,{second}x{second_mb:g}M"


def published_cases() -> Iterator[MemoryCase]:
    """Yield the runs of Figures 5, 6 and 8, all estimators under all fill orders, and Figures 5 and 6 under EASY."""
    for order in ORDERS:
        for name in PAPER_VARIANTS:
            yield MemoryCase(CLASSES, SATURATED, order=order, estimator=name)
    for size in FIGURE_8_MB:
        if size != SECOND_MB:
            for name in PUBLISHED_PAIR:
                yield MemoryCase(with_second(CLASSES, size), SATURATED, estimator=name)
    for policy in ("fcfs", "easy"):
        for load in LOADS:
            if (policy, load) != ("fcfs", SATURATED):
                for name in PUBLISHED_PAIR:
                    yield MemoryCase(CLASSES, load, policy, estimator=name)


def chosen_cases(
    classes: Sequence[str], orders: Sequence[str], policy: str, loads: Sequence[float], estimators: Sequence[str]
) -> Iterator[MemoryCase]:
    """Yield every combination."""
    for of in classes:
        for order in orders:
            for load in loads:
                for name in estimators:
                    yield MemoryCase(of, load, policy, order, name)
