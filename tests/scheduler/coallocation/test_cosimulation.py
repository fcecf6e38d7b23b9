"""Whole simulations of clusters: by hand, by properties of every schedule, beside EASY itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduler.coallocation.check_of_clusters import check

from jobsight_scheduler.coallocation import scheduler as scheduler_module
from jobsight_scheduler.coallocation.bandwidth_sources import BandwidthSource
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.communication import CommunicatingJobs
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS, SpreadPlacement, aware, naive, none
from jobsight_scheduler.coallocation.scheduler import ClusterRequests, Scheduler
from jobsight_scheduler.policies.chosen import choose_policy
from jobsight_scheduler.prediction import Stated
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.workload.canonical import Workload

ALL = 1_000_000


def work_of(*rows: tuple[float, float, int, float, float]) -> CommunicatingJobs:
    """Rows of submission, run time, processors, bandwidth, share; requests are exact."""
    submit, run, count, bandwidth, share = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    jobs = Workload(submit, run, run, count.astype(np.int64), np.arange(len(rows)), Counter())
    return CommunicatingJobs(jobs, bandwidth, share)


def stated(bandwidth_bps: Sequence[float]) -> BandwidthSource:
    return BandwidthSource(Stated(bandwidth_bps), bandwidth_bps)


def simulate(
    work: CommunicatingJobs,
    clusters: Clusters,
    placement: str,
    source: Callable[[], BandwidthSource] | None = None,
    theta: float = 1.0,
) -> CoSimulation:
    def make(requests: ClusterRequests) -> Scheduler:
        bandwidth = stated(work.bandwidth_bps.tolist()) if source is None else source()
        return Scheduler(requests, PLACEMENTS[placement], bandwidth, theta)

    return CoSimulation(work, clusters, make)


def finished(simulation: CoSimulation) -> CoSimulation:
    assert simulation.advance(ALL)
    found = simulation.start_s, simulation.end_s, simulation.allocations
    assert check(simulation.work, simulation.clusters, *found) == []
    return simulation


def test_an_estimate_too_short_to_move_a_late_clock_ends() -> None:
    work = work_of((1e18, 1, 4, 0, 0), (1e18, 1, 8, 0, 0), (1e18, 1, 2, 0, 0))
    assert finished(simulate(work, Clusters((4, 4), (1e6, 1e6)), "naive")).end_s.tolist() == [1e18] * 3


def test_speeds_go_down_and_up_again() -> None:
    def spread(processors: int, *_: object) -> tuple[tuple[int, int], ...]:
        return ((0, processors - 1), (1, 1))

    work = work_of((1, 20, 3, 8, 0.5), (6, 10, 3, 24, 1.0))
    simulation = CoSimulation(
        work,
        Clusters((8, 8), (8.0, 8.0)),
        lambda requests: Scheduler(requests, SpreadPlacement(spread), stated([0.0, 0.0])),
    )
    finished(simulation)
    # Alone, the first asks 2 x 8 x 1 / 2 = 8 of 8: full speed from 1 to 6. The second asks 24 more: four times that.
    # At 1/4 it would take 40 s; the first at 1 / (.5 + .5 x 4) = .4 takes 15 / .4 = 37.5 s more: until 43.5.
    assert simulation.end_s[0] == pytest.approx(43.5)
    # By then 37.5 / 4 of 10 s are done; the rest is at 8 of 24 bit/s.
    assert simulation.end_s[1] == pytest.approx(43.5 + 3 * (10 - 37.5 / 4))
    assert [row[1] for row in simulation.saturation] == pytest.approx([1.0, 4.0, 3.0, 0.0])


@st.composite
def workloads(draw: st.DrawFn, *, wide: bool = False) -> tuple[CommunicatingJobs, Clusters]:
    """Busy clusters of unequal size and links; whole seconds, so that much happens at once, or not.

    ``wide``: some jobs may be larger than any cluster.
    """
    seed, count = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 60))
    rng = np.random.default_rng(seed)
    sizes = tuple(draw(st.lists(st.integers(1, 16), min_size=1, max_size=5)))
    clusters = Clusters(sizes, tuple(draw(st.sampled_from([1.0, 1e6, 1e8, 1e10])) for _ in sizes))
    estimate = rng.choice([1.0, 60.0, 600.0, 86_400.0], count)
    run = np.where(rng.random(count) < 0.3, estimate, estimate * rng.random(count) ** 2 + 1e-3)
    run = np.minimum(run, estimate)
    processors = rng.integers(1, (clusters.total if wide else clusters.largest) + 1, count)
    submit = np.sort(rng.random(count)) * draw(st.sampled_from([0.0, 1.0, 1e3, 1e6]))
    if draw(st.booleans()):
        run, submit = np.ceil(run), np.floor(submit)
    bandwidth = np.exp(rng.normal(np.log(1e7), draw(st.sampled_from([0.1, 1.0, 4.0])), count))
    jobs = Workload(submit, run, np.maximum(estimate, run), processors, np.arange(count), Counter())
    return CommunicatingJobs(jobs, bandwidth * (rng.random(count) < 0.9), np.round(rng.random(count), 1)), clusters


@pytest.mark.exhaustive
@given(workloads(wide=True), st.sampled_from(["none", "naive", "aware"]), st.floats(0.1, 10.0))
@settings(max_examples=300, deadline=None)
def test_every_jobs_work_is_done_exactly_and_all_is_given_back(
    given_: tuple[CommunicatingJobs, Clusters], placement: str, wrong: float
) -> None:
    work, clusters = given_
    source = lambda: stated((wrong * work.bandwidth_bps).tolist())  # noqa: E731
    found = finished(simulate(work, clusters, placement, source=source))
    assert found.scheduler.free == list(clusters.processors)
    if found.saturation:
        assert set(found.saturation[-1][1:]) == {0.0}
    if placement == "none":
        alone = work.jobs.processors <= clusters.largest
        assert [len(where) == 1 for where in found.allocations] == alone.tolist()
        took = (found.end_s - found.start_s)[alone]
        rounding = 4.0 * np.spacing(found.now)
        np.testing.assert_allclose(took, work.jobs.run_s[alone], rtol=1e-9, atol=max(1e-6, rounding))


@given(workloads(), st.floats(0.05, 1.0))
@settings(max_examples=100, deadline=None)
def test_who_knows_the_truth_never_saturates_a_link(given_: tuple[CommunicatingJobs, Clusters], theta: float) -> None:
    work, clusters = given_
    found = finished(simulate(work, clusters, "aware", theta=theta))
    assert max((max(row[1:]) for row in found.saturation), default=0.0) <= theta * (1 + 1e-9)
    np.testing.assert_allclose(found.end_s - found.start_s, work.jobs.run_s, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("expected", [1e3, 1e9, np.inf])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_job_larger_than_any_cluster_waits_for_nothing_but_its_turn(placement: str, expected: float) -> None:
    # It would book far more than the links carry; before it and after it jobs of the user run that must not be spread.
    work = work_of((0, 10, 4, 1e9, 0.5), (1, 10, 6, 1e9, 0.5), (2, 5, 4, 1e9, 0.5), (3, 10, 8, 1e9, 0.5))
    found = finished(simulate(work, Clusters((4, 4), (1e6, 2e6)), placement, source=lambda: stated([expected] * 4)))
    assert found.start_s[:3].tolist() == [0.0, 10.0, 2.0]  # the third ends before the second's reservation
    assert [len(where) for where in found.allocations] == [1, 2, 1, 2]
    assert found.start_s[3] == found.end_s[1]


def test_a_job_is_spread_only_over_processors_that_no_waiting_job_could_use() -> None:
    """At 10 s one processor of each cluster becomes free. A job of two waits for them, and behind it a job of one,
    which ends before the first two of a single cluster are free, at 60 s.
    """
    running = (0, 100, 3, 1, 0.5), (0, 10, 1, 1, 0.5), (0, 60, 3, 1, 0.5), (0, 10, 1, 1, 0.5)
    work = work_of(*running, (1, 50, 2, 1, 0.5), (2, 20, 1, 1, 0.5))
    starts = {
        placement: finished(simulate(work, Clusters((4, 4), (1e6, 1e6)), placement)).start_s[4:].tolist()
        for placement in ("none", "naive", "aware")
    }
    assert starts == {"none": [60, 10], "naive": [10, 60], "aware": [30, 10]}


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(PLACEMENTS)))
@settings(max_examples=60, deadline=None)
def test_on_one_cluster_it_is_easy(seed: int, placement: str) -> None:
    """Held against the single-machine simulator, which is held against a published one; times without ties."""
    rng = np.random.default_rng(seed)
    count = 150
    estimate = rng.choice([60.0, 600.0, 3600.0], count) * (1 + rng.random(count))
    run = estimate * rng.random(count)
    submit = np.cumsum(rng.exponential(rng.choice([20.0, 60.0, 200.0]), count))
    processors = rng.integers(1, 17, count)
    jobs = Workload(submit, run, estimate, processors, np.arange(count), Counter())
    easy = Simulation(jobs, 16, choose_policy("easy").make)
    assert easy.advance(ALL)
    work = CommunicatingJobs(jobs, np.full(count, 1e9), np.ones(count))
    found = finished(simulate(work, Clusters((16,), (1e6,)), placement)).start_s
    np.testing.assert_array_equal(found, easy.start_s)


@pytest.mark.exhaustive
def test_ten_thousand_jobs_at_once_and_more_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    work = work_of(*[(0.0, float(rng.integers(1, 99)), int(rng.integers(1, 9)), 1e6, 0.5) for _ in range(10_000)])
    clusters = Clusters((8, 8), (1e6, 1e6))
    for placement in PLACEMENTS:
        finished(simulate(work, clusters, placement))
    monkeypatch.setattr(scheduler_module, "LOOK_AHEAD", 1)
    few = work_of(*[(0.0, float(rng.integers(1, 99)), int(rng.integers(1, 9)), 1e6, 0.5) for _ in range(50)])
    starts = finished(simulate(few, clusters, "none")).start_s
    assert (np.diff(starts) >= 0).all()  # only the head may start: first come, first served


def test_a_workload_without_jobs_is_done_at_once() -> None:
    clusters = Clusters((4, 4), (1e6, 1e6))
    nothing = np.empty(0)
    empty = Workload(nothing, nothing, nothing, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.intp), Counter())
    assert simulate(CommunicatingJobs(empty, nothing, nothing), clusters, "aware").advance(10)


def test_what_the_validator_finds() -> None:
    work = work_of((0, 100, 3, 1e6, 0.5), (0, 100, 3, 1e6, 0.5), (10, 100, 2, 4e6, 1.0))
    clusters = Clusters((4, 4), (1e6, 1e6))
    found = finished(simulate(work, clusters, "naive"))
    start, end, where = found.start_s, found.end_s, list(found.allocations)
    assert end[2] == pytest.approx(410)

    def rules(**changed: object) -> set[str]:
        shown = {"start_s": start, "end_s": end, "allocations": where} | changed
        return {finding.rule for finding in check(work, clusters, **shown)}  # type: ignore[arg-type]

    assert rules() == set()
    assert rules(start_s=start - 1) == {"no start before submission"}
    assert rules(end_s=end + np.array([0, 0, 1])) == {"work is done exactly"}
    assert rules(end_s=np.array([100, 100, np.inf])) == {"every job runs"}
    assert rules(allocations=[where[0], where[1], ((0, 1),)]) == {"whole jobs"}
    assert rules(allocations=[where[0], where[1], ((0, 1), (0, 1))]) == {"whole jobs"}
    assert "processors" in rules(allocations=[where[0], where[0], where[2]])


def test_where_jobs_are_placed() -> None:
    spare = [1e6, 1e6, 1e6]
    assert none(3, 0, [8, 3, 4], spare) == ((1, 3),)
    assert none(5, 0, [4, 3, 4], spare) is None
    assert naive(3, 9e9, [8, 3, 4], spare) == ((1, 3),)
    assert naive(9, 9e9, [4, 3, 8], spare) == ((2, 8), (0, 1))
    assert naive(9, 0, [4, 3, 1], spare) is None
    assert aware(3, 9e9, [8, 3, 4], spare) == ((1, 3),)
    # 4 and 1 of 5 processors: 4 x 1 / 4 x b on each link.
    assert aware(5, 1e6, [4, 3, 4], spare) == ((0, 4), (2, 1))
    assert aware(5, 1.1e6, [4, 3, 4], spare) is None
    # Link 0 is full: 2 and 1 share it.
    assert aware(5, 1e6, [4, 3, 4], [0.5e6, 1e6, 1e6]) == ((2, 4), (1, 1))
    assert aware(5, 1e6, [4, 3, 4], [0.5e6, 0.9e6, 1e6]) is None
