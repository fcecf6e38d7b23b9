"""One simulation of giving jobs the memory that they need instead of what they request.

It has one cluster, fill order, policy, load and estimator, and takes all jobs of a trace; a seed decides after which
fraction of its run time a job fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jobsight_predictor.estimators import ESTIMATORS, Estimator, Requested, SystemState
from jobsight_predictor.estimators.last_instance import LastInstance
from jobsight_predictor.estimators.robust_search import RobustSearch
from jobsight_predictor.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question
from jobsight_scheduler.memory.job_source import JobSource, at_load, jobs_of
from jobsight_scheduler.memory.nodes import MIB, Nodes, Order, parse_classes
from jobsight_scheduler.memory.requirements import Estimated, Oracle, Requirements
from jobsight_scheduler.memory.results import memory_figures
from jobsight_scheduler.memory.simulation import MEMORY_POLICIES, Asked, MemorySimulation, Retry


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

    @property
    def learns(self) -> bool:
        """Whether its estimates change while a job waits."""
        return self.estimator not in (None, SmallestNode, ESTIMATORS["none"])


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
class MemoryCase:
    """One run. ``alpha`` and ``beta`` are those of successive approximation.

    ``asked``: when the memory of jobs that wait is estimated. With ``failures_cost`` off, a failed job returns at once:
    the difference is the delay due to failures.
    """

    classes: str
    load: float
    policy: str = "fcfs"
    order: Order = "smallest-fit"
    estimator: str = "none"
    retry: Retry = "request"
    alpha: float = 2.0
    beta: float = 0.0
    failures_cost: bool = True
    asked: Asked = "group"
    seed: int = 0

    @property
    def second_mb(self) -> float | None:
        """Memory of the smaller nodes in MB; None if there are more than two classes."""
        sizes = [entry.memory_bytes / MIB for entry in parse_classes(self.classes)]
        return sizes[0] if len(sizes) < 3 else None


def run_case(case: MemoryCase, source: JobSource) -> dict[str, Any]:
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
        asked=case.asked,
    )
    while not simulation.advance(100_000):
        pass
    names = ("classes", "order", "policy", "load", "estimator", "asked", "retry")
    row = {"second_mb": case.second_mb} | {name: getattr(case, name) for name in names}
    return row | asdict(memory_figures(simulation)) | {"groups": int(jobs.group.max()) + 1}


def _maker(case: MemoryCase, source: JobSource) -> Callable[[Sequence[float]], Estimator]:
    estimator = VARIANTS[case.estimator].estimator
    assert estimator is not None
    if estimator is SuccessiveApproximation:
        return lambda capacities: SuccessiveApproximation(capacities, source.fields, case.alpha, case.beta)
    if estimator in (RobustSearch, LastInstance):
        return lambda capacities: estimator(capacities, source.fields)
    return estimator
