"""Runs of the experiment: does a scheduler that knows bandwidths spread jobs over clusters better?

A run takes a whole trace, draws communication for its jobs by the seed, and simulates one policy. Policies are compared
on the same jobs, seed by seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobsight_papers.coallocation.scenarios import LOAD, POLICIES, PROCESSORS, SCENARIOS, Scenario
from jobsight_papers.traces import read_trace
from jobsight_scheduler.coallocation.bandwidth_sources import bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.communication import SyntheticWorkload, draw_communication
from jobsight_scheduler.coallocation.cosimulation import CoSimulation, figures, job_table
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_scheduler.workload.canonical import Workload, canonical, scaled_to
from jobsight_scheduler.workload.swf import Trace


@dataclass(frozen=True, slots=True)
class ExperimentCase:
    """One run, of the first ``jobs`` jobs of the trace; 0: of all."""

    trace: str
    scenario: str
    policy: str
    seed: int
    jobs: int = 0

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything that determines the result, as JSON values."""
        scenario, policy = SCENARIOS[self.scenario], POLICIES[self.policy]
        return (*asdict(self).values(), repr(scenario), repr(policy))


def cases(
    traces: Sequence[str], seeds: int, scenarios: Sequence[str], policies: Sequence[str], jobs: int = 0
) -> Iterator[ExperimentCase]:
    """Yield every run, with ``none`` in each scenario; seed by seed: an interrupted experiment has whole seeds."""
    for seed in range(seeds):
        for trace in traces:
            for scenario in scenarios:
                for policy in dict.fromkeys(("none", *policies)):
                    yield ExperimentCase(trace, scenario, policy, seed, jobs)


def run_case(case: ExperimentCase, file: Path) -> dict[str, Any]:
    """Return the figures of one run, on the trace in ``file``.

    Raises:
        ValueError: too few jobs, or all of them were submitted at once.
    """
    scenario, policy = SCENARIOS[case.scenario], POLICIES[case.policy]
    clusters = Clusters(PROCESSORS, tuple(1e6 * rate for rate in scenario.uplinks_mbps))
    trace, whole = _read(file, clusters.largest)
    jobs = scaled_to(first(whole, case.jobs), clusters.total, LOAD)
    drawn = known(draw_communication(trace, jobs, case.seed, scenario.habits), scenario)
    source = bandwidth_source(policy.bandwidth, drawn, 1e6 * policy.constant_mbps)
    simulation = CoSimulation(
        drawn.work,
        clusters,
        lambda requests: Scheduler(requests, PLACEMENTS[policy.placement], source),
    )
    simulation.advance(2 * len(jobs))
    return figures(simulation, job_table(simulation))


def known(drawn: SyntheticWorkload, scenario: Scenario) -> SyntheticWorkload:
    """Return the jobs with the statements and names of the scenario."""
    questions = drawn.questions
    if not scenario.has_names:
        questions = [question._replace(application=None) for question in questions]
    return replace(drawn, stated_bps=scenario.stated * drawn.stated_bps, questions=questions)


def first(whole: Workload, jobs: int) -> Workload:
    """Return the first ``jobs`` jobs; all of them if ``jobs`` is 0."""
    if not jobs:
        return whole
    columns = ("submit_s", "run_s", "estimate_s", "processors", "row")
    return replace(whole, **{name: getattr(whole, name)[:jobs] for name in columns})


@lru_cache(maxsize=4)
def _read(file: Path, largest: int) -> tuple[Trace, Workload]:
    trace = read_trace(file)
    return trace, canonical(trace, largest)
