"""Runs on nodes of several memory sizes: the choice of memory, by an estimator or the truth, and the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs, numbered
from jobsight_papers.overprovisioning.cluster.nodes import Choose, Nodes, parse_classes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.cluster.simulation import MemorySimulation, Requirements, Retry
from jobsight_papers.overprovisioning.estimators.base import SIMILAR, AttemptOutcome, Estimator, Requested, SystemState
from jobsight_papers.overprovisioning.estimators.by_group import ByGroup
from jobsight_papers.overprovisioning.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import scaled_to


class Estimated(Requirements):
    """Requirements by an estimator. With ``explicit`` feedback it also learns finished jobs' use."""

    def __init__(self, estimator: Estimator, jobs: MemoryJobs, *, explicit: bool = False) -> None:
        self._estimator = estimator
        self.sees_system = estimator.sees_system
        self._questions = jobs.questions
        self._requested = jobs.requested_bytes.tolist()
        self._used = [None if used != used else used for used in jobs.used_bytes.tolist()]
        self._explicit = explicit

    def ask(self, job: int, system: SystemState | None) -> float:
        return self._estimator.estimate(self._questions[job], self._requested[job], system)

    def learn(self, job: int, outcome: AttemptOutcome) -> None:
        if self._explicit and not outcome.failed:
            outcome = outcome._replace(used=self._used[job])
        self._estimator.learn(self._questions[job], self._requested[job], outcome)

    def kinds(self, jobs: MemoryJobs) -> Sequence[int]:
        kinds: list[int] = numbered(zip(jobs.questions, self._requested, strict=True)).tolist()
        return kinds


class Oracle(Requirements):
    """Requirements by the truth: the recorded use, else the request."""

    def __init__(self, jobs: MemoryJobs) -> None:
        unknown = np.isnan(jobs.used_bytes)
        self._need = np.where(unknown, jobs.requested_bytes, jobs.used_bytes).tolist()

    def ask(self, job: int, system: SystemState | None) -> float:
        return float(self._need[job])

    def learn(self, job: int, outcome: AttemptOutcome) -> None:
        """Do nothing."""

    def kinds(self, jobs: MemoryJobs) -> Sequence[int]:
        return range(len(jobs))


def memory_figures(simulation: MemorySimulation) -> dict[str, float]:
    """Return the figures of a simulation in which every job has ended: shares of 1, times in seconds.

    ``utilisation``: node-seconds of finished jobs, as a share of all from the first submission to the last end.
    ``failed_share`` of attempts; ``lowered_share`` of jobs that finished on less than they requested;
    ``failed_node_hours`` spent on failed attempts. Slowdown is (wait + run) / run, ``mean_bounded_slowdown`` with at
    least 10 s of run time and at least 1. ``mean_wait_s`` is until the start of the attempt that succeeded.
    """
    work = simulation.workload
    stay = simulation.end_s - work.submit_s
    span = float(simulation.end_s.max())
    return {
        "utilisation": float(work.processors @ work.run_s) / (simulation.capacity * span),
        "failed_share": simulation.failures / simulation.attempts,
        "lowered_share": float(simulation.is_lowered.mean()),
        "mean_slowdown": float((stay / work.run_s).mean()),
        "mean_bounded_slowdown": float(np.maximum(1.0, stay / np.maximum(work.run_s, 10.0)).mean()),
        "mean_wait_s": float((simulation.start_s - work.submit_s).mean()),
        "failed_node_hours": float(simulation.failed_node_s) / 3600.0,
    }


class SmallestNode(Requested):
    """The simplest rule, for comparison: every job requests the smallest node, and its own request after a failure."""

    name = "smallest-node"

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        return min(requested, self.capacities[0])


@dataclass(frozen=True, slots=True)
class EstimatorVariant:
    """An estimator and its feedback; None is the truth. ``has_fields``: it groups jobs by fields of choice."""

    estimator: type[Estimator] | None
    explicit: bool = False
    has_fields: bool = False

    @property
    def learns(self) -> bool:
        """Whether its estimates change while a job waits."""
        return self.estimator not in (None, SmallestNode, Requested)


VARIANTS: dict[str, EstimatorVariant] = {
    "none": EstimatorVariant(Requested),
    "smallest-node": EstimatorVariant(SmallestNode),
    "successive-approximation": EstimatorVariant(SuccessiveApproximation),
    "jobsight": EstimatorVariant(ByGroup, explicit=True),
    "jobsight-implicit": EstimatorVariant(ByGroup),
    "oracle": EstimatorVariant(None),
}
"""The choices of ``--estimators``."""


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """One run. ``alpha`` and ``beta`` belong to successive approximation.

    With ``failures_cost`` off, a failed job returns at once: the difference is the delay due to failures.
    """

    classes: str
    load: float
    policy: str = "fcfs"
    order: str = "smallest-fit"
    estimator: str = "none"
    retry: Retry = "request"
    alpha: float = 2.0
    beta: float = 0.0
    failures_cost: bool = True
    seed: int = 0


def run_case(
    case: MemoryCase,
    given: MemoryJobs,
    fields: Sequence[str] = SIMILAR,
    choose: Choose | None = None,
    variants: Mapping[str, EstimatorVariant] = VARIANTS,
) -> dict[str, Any]:
    """Return the row of one run of the jobs; those of one similarity group share ``fields``. ``choose``: the order."""
    nodes = Nodes(parse_classes(case.classes), choose)
    jobs = replace(given, work=scaled_to(given.work, sum(nodes.nodes), case.load))
    variant = variants[case.estimator]
    requirements: Requirements
    if variant.estimator is None:
        requirements = Oracle(jobs)
    else:
        requirements = Estimated(_made(variant, case, fields, nodes.memory_bytes), jobs, explicit=variant.explicit)
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
    row = {name: getattr(case, name) for name in names}
    return row | memory_figures(simulation) | {"groups": int(jobs.group.max()) + 1}


def _made(variant: EstimatorVariant, case: MemoryCase, fields: Sequence[str], capacities: Sequence[float]) -> Estimator:
    assert variant.estimator is not None
    if variant.estimator is SuccessiveApproximation:
        return SuccessiveApproximation(capacities, tuple(fields), case.alpha, case.beta)
    made: Callable[..., Estimator] = variant.estimator
    return made(capacities, tuple(fields)) if variant.has_fields else made(capacities)
