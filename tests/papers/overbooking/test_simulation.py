"""The simulation of overbooking: no job later than planned, sums, failures, published figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none
from tests.traces import trace

from jobsight_papers.overbooking.jobs import OverbookingSource
from jobsight_papers.overbooking.node_failures import Downtimes, downtimes
from jobsight_papers.overbooking.runs import OverbookingCase, run_figures, run_overbooking
from jobsight_papers.overbooking.simulation import OfferedJob, OverbookingSimulation
from jobsight_papers.overbooking.strategies import STRATEGIES, OverbookingStrategy
from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import SimpleAccuracy, TimeSliceAccuracy
from jobsight_predictor.runtime.success import MachineFailure
from jobsight_scheduler.overbooking.accept import AcceptanceRule

NEVER = MachineFailure(0.0, 1.0)


def workload(seed: int, count: int, nodes: int) -> list[OfferedJob]:
    rng = np.random.default_rng(seed)
    submitted = np.cumsum(rng.exponential(0.3, count))
    found = []
    for job in range(count):
        hours = float(rng.choice([0.2, 1.0, 4.0, 10.0]))
        release = float(submitted[job] + rng.exponential(3.0))
        found.append(
            OfferedJob(
                job, Question(f"u{job % 5}", requested_time_s=3600.0 * hours), int(rng.integers(1, nodes + 2)), hours,
                float(submitted[job]), release, release + 4.0 * hours, hours * float(rng.choice([0.0, 0.1, 0.5, 1.0])),
            )
        )  # fmt: skip
    return found


def no_downtimes(nodes: int) -> Downtimes:
    return Downtimes([[] for _ in range(nodes)], [[] for _ in range(nodes)])


def test_a_filter_refuses_by_the_risk_of_node_failures_alone() -> None:
    for pmax, widest in ((0.05, 62), (0.1, 127), (0.2, 269)):
        for nodes, reason in ((widest, ""), (widest + 1, "machine risk")):
            run = OverbookingSimulation(
                400, STRATEGIES["filter-only"].at(pmax), TimeSliceAccuracy(), MachineFailure(), no_downtimes(400)
            )
            assert run.offer(OfferedJob(1, Question("a"), nodes, 0.001, 0.0, 0.0, 9.0, 0.001)).reason == reason


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.sampled_from(sorted(STRATEGIES)), st.sampled_from([0.05, 0.3, 0.9]),
    st.sampled_from(["exact", "fast"]),
)  # fmt: skip
def test_no_job_starts_later_than_planned_or_shares_a_processor(seed: int, name: str, pmax: float, form: str) -> None:
    nodes = 6
    jobs = workload(seed, 60, nodes)
    machine = MachineFailure(0.001, 0.1)
    strategy = STRATEGIES[name].at(pmax)
    strategy = replace(strategy, form=form)
    history = TimeSliceAccuracy()
    for job in workload(seed + 1, 60, nodes):
        history.learn(job.question, job.run_h / job.requested_h)
    down = downtimes(nodes, machine, 1000.0, seed)
    simulation = OverbookingSimulation(nodes, strategy, history, machine, down, 2.0)
    runs: list[tuple[int, float, float]] = []
    decided = {}
    for job in jobs:
        simulation.advance(job.submitted_h)
        decided[job.job] = simulation.offer(job)
    simulation.advance(np.inf)
    given_jobs = {job.job: job for job in jobs}
    assert len(simulation.accepted) + sum(simulation.rejected.values()) == len(jobs)
    for ended in simulation.accepted:
        job, place = given_jobs[ended.job], not_none(decided[ended.job].place)
        assert job.release_h <= ended.started_h <= place.start_h == ended.planned_h
        assert ended.ended_h <= job.deadline_h + 1e-9
        assert ended.ended_h <= place.end_h + 1e-9
        assert ended.ended_h - ended.started_h <= min(job.run_h, job.requested_h) + 1e-9
        runs += [(processor, ended.started_h, ended.ended_h) for processor in place.processors.tolist()]
        if ended.has_succeeded:
            assert ended.ended_h - ended.started_h == pytest.approx(job.run_h)
            assert down.first(place.processors, ended.started_h, ended.ended_h) is None
        if name in ("conservative", "release", "filter-only"):
            assert not ended.was_killed
    runs.sort()
    for (one, _, end), (other, start, _) in pairwise(runs):
        assert one != other or end <= start + 1e-9
    figures = run_figures(simulation.accepted, simulation.rejected)
    good = [ended for ended in simulation.accepted if ended.has_succeeded]
    assert figures["net_hours"] == pytest.approx(
        sum(given_jobs[ended.job].requested_h for ended in good)
        - sum(2.0 * given_jobs[ended.job].requested_h for ended in simulation.accepted if not ended.has_succeeded)
    )
    assert figures["net_hours"] == pytest.approx(figures["profit_hours"] - figures["penalty_hours"])
    assert sum(job.profit for job in simulation.accepted) == pytest.approx(figures["net_hours"])
    assert sum(figures["calibration"]["jobs"]) == figures["accepted"]


def test_a_job_is_killed_at_the_next_booked_start() -> None:
    """One job is booked on 0 and 1 from 6 to 10; another that requests 8 h and runs for 6 is sold 0 from 2 to 6."""
    strategy = OverbookingStrategy(AcceptanceRule(pmax=0.9), "simple")
    history = SimpleAccuracy()
    for ratio in (0.2, 0.2, 1.0):
        history.learn(Question(), ratio)
    first = OfferedJob(1, Question(), 2, 4.0, 0.0, 6.0, 10.0, 4.0)  # both processors, 6 to 10
    second = OfferedJob(2, Question(), 1, 8.0, 1.0, 2.0, 40.0, 6.0)  # on 0 from 2, killed at 6; would run until 8
    for nodes in (2, 3):
        simulation = OverbookingSimulation(nodes, strategy, history, NEVER, no_downtimes(nodes))
        simulation.run([first, second])
        found = {job.job: job for job in simulation.accepted}
        assert (found[2].started_h, found[2].ended_h, found[2].was_killed) == (2.0, 6.0, True)
        assert found[2].profit == -8.0
        assert found[1].started_h == 6.0


def test_nodes_are_down_as_often_as_published() -> None:
    """Down share 1 / 11 of 400 nodes over 20,000 hours, to a few per cent."""
    machine = MachineFailure(0.001, 0.01)
    drawn = downtimes(400, machine, 20_000.0, 1)
    assert drawn.hours / (400 * 20_000.0) == pytest.approx(1.0 / 11.0, rel=0.06)
    assert downtimes(400, machine, 20_000.0, 1).hours == drawn.hours
    assert downtimes(400, replace(machine, failures_per_h=0.0), 100.0, 1).hours == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "accepted", "net_hours"),
    [("SDSC-SP2-1998-4.2-cln.swf.gz", 572, 4057), ("KTH-SP2-1996-2.1-cln.swf.gz", 447, 2234)],
)
def test_the_published_set_up(file: str, accepted: float, net_hours: float) -> None:
    source = OverbookingSource(trace(file))
    runs = [run_overbooking(OverbookingCase("conservative", seed=seed), source) for seed in range(5)]
    assert np.mean([run["accepted"] for run in runs]) == pytest.approx(accepted, rel=0.05)
    assert np.mean([run["net_hours"] for run in runs]) == pytest.approx(net_hours, rel=0.1)
    assert all(run["killed_jobs"] == 0 for run in runs)
