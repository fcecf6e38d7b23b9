"""What is gained by giving jobs the memory they need instead of what they request (Yom-Tov and Aridor 2006)?

A run simulates one cluster, fill order, policy, load and estimator on all jobs of a trace. Runs are independent of one
another; a seed decides after which fraction of its run time a job fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from jobsight_predictor.estimators import ESTIMATORS, Estimator, Requested, SystemState
from jobsight_predictor.estimators.last_instance import LastInstance
from jobsight_predictor.estimators.robust_search import RobustSearch
from jobsight_predictor.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question
from jobsight_scheduler.memory.nodes import MIB, ORDERS, Nodes, Order, parse_classes
from jobsight_scheduler.memory.requirements import Estimated, Oracle, Requirements
from jobsight_scheduler.memory.results import memory_figures
from jobsight_scheduler.memory.simulation import MEMORY_POLICIES, MemorySimulation, Retry

from .overprovisioning_jobs import JobSource, at_load, jobs_of

CLASSES = "512x32M,512x24M"
SECOND_MB = 24.0
FIGURE_8_MB = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 29, 30, 31, 32)
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
SATURATED = 1.2
PUBLISHED_ORDER: Order = "smallest-fit"
PUBLISHED_PAIR = ("none", "successive-approximation")


class SmallestNode(Requested):
    """The simplest rule, for comparison: every job asks for the smallest node, and for its request after a failure."""

    name = "smallest-node"

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        return min(requested, self.capacities[0])


@dataclass(frozen=True, slots=True)
class EstimatorVariant:
    """An estimator and its feedback; None is the truth."""

    estimator: type[Estimator] | None
    explicit: bool = False


VARIANTS: dict[str, EstimatorVariant] = {
    "none": EstimatorVariant(ESTIMATORS["none"]),
    "smallest-node": EstimatorVariant(SmallestNode),
    "successive-approximation": EstimatorVariant(ESTIMATORS["successive-approximation"]),
    "robust-search": EstimatorVariant(ESTIMATORS["robust-search"]),
    "last-instance": EstimatorVariant(ESTIMATORS["last-instance"], explicit=True),
    "reinforcement": EstimatorVariant(ESTIMATORS["reinforcement"]),
    "regression": EstimatorVariant(ESTIMATORS["regression"], explicit=True),
    "jobsight": EstimatorVariant(ESTIMATORS["jobsight"], explicit=True),
    "jobsight-implicit": EstimatorVariant(ESTIMATORS["jobsight"]),
    "oracle": EstimatorVariant(None),
}
"""The choices of ``--estimators``."""


@dataclass(frozen=True, slots=True)
class OverprovisioningCase:
    """One run. ``alpha`` and ``beta`` are those of successive approximation.

    With ``failures_cost`` off, a failed job returns at once: the difference is the delay due to failures.
    """

    classes: str = CLASSES
    order: Order = PUBLISHED_ORDER
    policy: str = "fcfs"
    load: float = SATURATED
    estimator: str = "none"
    retry: Retry = "request"
    alpha: float = 2.0
    beta: float = 0.0
    failures_cost: bool = True
    seed: int = 0

    @property
    def second_mb(self) -> float | None:
        """Memory of the smaller nodes in MB; None if there are more than two classes."""
        sizes = [entry.memory_bytes / MIB for entry in parse_classes(self.classes)]
        return sizes[0] if len(sizes) < 3 else None

    @property
    def without_failure_cost(self) -> OverprovisioningCase:
        """The same with failed jobs that return at once."""
        return replace(self, failures_cost=False)


def with_second(classes: str, second_mb: float) -> str:
    """``classes`` with its smallest nodes, or half of the nodes of a single class, given ``second_mb``.

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


def published_cases() -> Iterator[OverprovisioningCase]:
    """The runs of Figures 5, 6 and 8, all estimators under all fill orders, and Figures 5 and 6 under EASY."""
    for order in ORDERS:
        for name in VARIANTS:
            yield OverprovisioningCase(order=order, estimator=name)
    for size in FIGURE_8_MB:
        if size != SECOND_MB:
            for name in PUBLISHED_PAIR:
                yield OverprovisioningCase(with_second(CLASSES, size), estimator=name)
    for policy in ("fcfs", "easy"):
        for load in LOADS:
            if (policy, load) != ("fcfs", SATURATED):
                for name in PUBLISHED_PAIR:
                    yield OverprovisioningCase(policy=policy, load=load, estimator=name)


def chosen_cases(
    classes: Sequence[str], orders: Sequence[Order], policy: str, loads: Sequence[float], estimators: Sequence[str]
) -> Iterator[OverprovisioningCase]:
    """Every combination."""
    for of in classes:
        for order in orders:
            for load in loads:
                for name in estimators:
                    yield OverprovisioningCase(of, order, policy, load, name)


def run_case(case: OverprovisioningCase, source: JobSource) -> dict[str, Any]:
    """The row of one run."""
    nodes = Nodes(parse_classes(case.classes), case.order)
    jobs = at_load(jobs_of(source), sum(nodes.nodes), case.load)
    variant = VARIANTS[case.estimator]
    requirements: Requirements
    if variant.estimator is None:
        requirements = Oracle(jobs)
    else:
        requirements = Estimated(_maker(case, source)(nodes.memory_bytes), jobs, explicit=variant.explicit)
    policy = MEMORY_POLICIES[case.policy]
    simulation = MemorySimulation(
        jobs,
        nodes,
        policy,
        requirements,
        np.random.default_rng(case.seed),
        case.retry,
        failures_cost=case.failures_cost,
    )
    while not simulation.advance(100_000):
        pass
    names = ("classes", "order", "policy", "load", "estimator", "retry")
    row = {"second_mb": case.second_mb} | {name: getattr(case, name) for name in names}
    return row | asdict(memory_figures(simulation)) | {"groups": int(jobs.group.max()) + 1}


def _maker(case: OverprovisioningCase, source: JobSource) -> Callable[[Sequence[float]], Estimator]:
    estimator = VARIANTS[case.estimator].estimator
    assert estimator is not None
    if estimator is SuccessiveApproximation:
        return lambda capacities: SuccessiveApproximation(capacities, source.fields, case.alpha, case.beta)
    if estimator in (RobustSearch, LastInstance):
        return lambda capacities: estimator(capacities, source.fields)
    return estimator
