"""Runs on nodes of several memory sizes: the choice of memory, by an estimator or the truth, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs, numbered
from jobsight_papers.overprovisioning.cluster.nodes import Nodes, parse_classes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.cluster.simulation import MemorySimulation, Requirements, Retry
from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, Requested, SystemState
from jobsight_papers.overprovisioning.estimators.by_group import ByGroup
from jobsight_papers.overprovisioning.estimators.last_instance import LastInstance
from jobsight_papers.overprovisioning.estimators.regression import Regression
from jobsight_papers.overprovisioning.estimators.reinforcement import Reinforcement
from jobsight_papers.overprovisioning.estimators.robust_search import RobustSearch
from jobsight_papers.overprovisioning.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import scaled_to


class Estimated(Requirements):
    """Requirements by an estimator. With ``explicit`` feedback it also learns finished jobs' use.

    With ``faulty`` programs, jobs that failed in the log fail here, too: implicit feedback takes it for want of memory.
    """

    def __init__(self, estimator: Estimator, jobs: MemoryJobs, *, explicit: bool = False, faulty: bool = False) -> None:
        self._estimator = estimator
        self.sees_system = estimator.sees_system
        self._questions = jobs.questions
        self._requested = jobs.requested_bytes.tolist()
        self._used = [None if used != used else used for used in jobs.used_bytes.tolist()]
        self._explicit = explicit
        self._misleads = jobs.has_failed.tolist() if faulty and not explicit else [False] * len(jobs)

    def ask(self, job: int, system: SystemState | None) -> float:
        return self._estimator.estimate(self._questions[job], self._requested[job], system)

    def learn(self, job: int, outcome: AttemptOutcome) -> None:
        if self._explicit and not outcome.failed:
            outcome = outcome._replace(used=self._used[job])
        elif self._misleads[job]:
            outcome = outcome._replace(failed=True)
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


class EstimatorVariant(NamedTuple):
    """An estimator and its feedback; None is the truth."""

    estimator: type[Estimator] | None
    explicit: bool = False


VARIANTS: dict[str, EstimatorVariant] = {
    "none": EstimatorVariant(Requested),
    "smallest-node": EstimatorVariant(SmallestNode),
    "successive-approximation": EstimatorVariant(SuccessiveApproximation),
    "robust-search": EstimatorVariant(RobustSearch),
    "last-instance": EstimatorVariant(LastInstance, explicit=True),
    "reinforcement": EstimatorVariant(Reinforcement),
    "regression": EstimatorVariant(Regression, explicit=True),
    "jobsight": EstimatorVariant(ByGroup, explicit=True),
    "jobsight-implicit": EstimatorVariant(ByGroup),
    "oracle": EstimatorVariant(None),
}
"""The choices of ``--estimators``, in the order of the document."""


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """One run. ``alpha`` and ``beta`` belong to successive approximation."""

    classes: str
    load: float
    policy: str = "fcfs"
    estimator: str = "none"
    retry: Retry = "request"
    alpha: float = 2.0
    beta: float = 0.0
    faulty: bool = False
    seed: int = 0


def run_case(case: MemoryCase, given: MemoryJobs) -> dict[str, Any]:
    """Return the row of one run of the jobs."""
    nodes = Nodes(parse_classes(case.classes))
    jobs = replace(given, work=scaled_to(given.work, sum(nodes.nodes), case.load))
    estimator, explicit = VARIANTS[case.estimator]
    requirements: Requirements
    if estimator is None:
        requirements = Oracle(jobs)
    else:
        steps = {"alpha": case.alpha, "beta": case.beta} if estimator is SuccessiveApproximation else {}
        requirements = Estimated(estimator(nodes.memory_bytes, **steps), jobs, explicit=explicit, faulty=case.faulty)
    policy, rng = MEMORY_POLICIES[case.policy], np.random.default_rng(case.seed)
    simulation = MemorySimulation(jobs, nodes, policy, requirements, rng, case.retry)
    while not simulation.advance(100_000):
        pass
    names = ("classes", "policy", "load", "estimator", "retry")
    row = {name: getattr(case, name) for name in names}
    return row | memory_figures(simulation) | {"groups": int(jobs.group.max()) + 1}
