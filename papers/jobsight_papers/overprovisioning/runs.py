"""The runs of the paper (Yom-Tov and Aridor 2006), and runs chosen by options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jobsight_papers.overprovisioning.cluster.cases import VARIANTS, MemoryCase
from jobsight_papers.overprovisioning.cluster.nodes import MIB, parse_classes

CLASSES = "512x32M,512x24M"
SECOND_MB = 24.0
FIGURE_8_MB = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 29, 30, 31, 32)
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
SATURATED = 1.2
PUBLISHED_PAIR = ("none", "successive-approximation")

ALPHAS = (1.1, 1.2, 1.5, 2.0, 4.0, 10.0)
BETAS = (0.0, 0.5, 0.9)


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
    """Yield the runs of Figures 5, 6 and 8, all estimators, and Figures 5 and 6 under EASY."""
    for name in VARIANTS:
        yield MemoryCase(CLASSES, SATURATED, estimator=name)
    for size in FIGURE_8_MB:
        if size != SECOND_MB:
            for name in PUBLISHED_PAIR:
                yield MemoryCase(with_second(CLASSES, size), SATURATED, estimator=name)
    for policy in ("fcfs", "easy"):
        for load in LOADS:
            if (policy, load) != ("fcfs", SATURATED):
                for name in PUBLISHED_PAIR:
                    yield MemoryCase(CLASSES, load, policy, estimator=name)


def step_cases(case: MemoryCase) -> Iterator[MemoryCase]:
    """Yield ``case`` with every alpha and beta, and with both ways to retry."""
    for alpha in ALPHAS:
        for beta in BETAS:
            yield replace(case, estimator="successive-approximation", alpha=alpha, beta=beta)
    yield replace(case, estimator="successive-approximation", retry="estimate")
