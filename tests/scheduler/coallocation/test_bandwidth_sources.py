"""Sources of bandwidths for a placement: when they are asked and learn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from jobsight_papers.schedules.lublin import lublin
from jobsight_predictor.question import Question
from jobsight_scheduler.coallocation.bandwidth_sources import BandwidthSource, bandwidth_source
from jobsight_scheduler.coallocation.clusters import Allocation, Clusters
from jobsight_scheduler.coallocation.communication import CommunicatingJobs, SyntheticWorkload, draw_communication
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS, SpreadPlacement
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_scheduler.workload.canonical import Workload, canonical


def drawn_jobs(count: int = 400) -> SyntheticWorkload:
    trace = lublin(count, 32, seed=1)
    return draw_communication(trace, canonical(trace, 32), seed=2)


class Recorded(BandwidthSource):
    """Notes when it is asked and taught, and of what."""

    def __init__(self) -> None:
        self.given: list[tuple[str, int]] = []
        self.peaks: dict[int, float] = {}

    def expected(self, job: int) -> float:
        self.given.append(("asked", job))
        return 1.0

    def learn(self, job: int, peak_bps: float) -> None:
        self.given.append(("taught", job))
        self.peaks[job] = peak_bps


def test_jobs_are_asked_about_when_they_come_and_taught_when_they_have_ended() -> None:
    def spread(*_: object) -> Allocation:
        return ((0, 1), (1, 1), (2, 1))

    count = np.array([3, 3], dtype=np.int64)
    times = np.array([20.0, 10.0])
    jobs = Workload(np.array([1.0, 6.0]), times, times, count, np.arange(2), Counter())
    work = CommunicatingJobs(jobs, np.array([8.0, 24.0]), np.array([0.5, 1.0]))
    recorded = Recorded()
    clusters = Clusters((2, 2, 2), (8.0, 8.0, 8.0))  # neither job fits on one
    simulation = CoSimulation(
        work, clusters, lambda given: Scheduler(given, SpreadPlacement(spread, asks=True), recorded)
    )
    assert simulation.advance(100)
    assert recorded.given == [("asked", 0), ("asked", 1), ("taught", 0), ("taught", 1)]
    # The first had 5 s alone; the second began at a quarter of its speed, and had a third of it at the end.
    assert recorded.peaks == {0: 8.0, 1: pytest.approx(24.0 / 3.0)}


def of_users(count: int, users: int) -> SyntheticWorkload:
    """Jobs of many users, which the model does not have."""
    jobs = drawn_jobs(count)
    questions = [question._replace(user=str(i % users)) for i, question in enumerate(jobs.questions)]
    return replace(jobs, questions=questions)


def test_users_who_state_nothing_keep_their_jobs_on_one_cluster() -> None:
    jobs = of_users(2000, 400)
    silent = np.arange(2000) % 3 == 0
    silent_jobs = replace(jobs, stated_bps=np.where(silent, np.inf, jobs.stated_bps))
    simulation = CoSimulation(
        jobs.work,
        Clusters((32, 32), (1e9, 1e9)),
        lambda requests: Scheduler(requests, PLACEMENTS["aware"], bandwidth_source("user", silent_jobs)),
    )
    assert simulation.advance(10_000)
    spread = np.array([len(where) > 1 for where in simulation.allocations])
    assert spread.any()
    assert not spread[silent].any()


def test_a_constant_and_the_means_of_an_application() -> None:
    jobs = of_users(300, 5)
    constant = bandwidth_source("constant", jobs, constant_bps=7e6)
    means = bandwidth_source("application-means", jobs)
    seen: dict[tuple[str | None, str | None], list[float]] = {}
    for job, question in enumerate(jobs.questions):
        key = question.user, question.application
        expected = np.mean(seen[key]) if key in seen else jobs.stated_bps[job]
        assert means.expected(job) == pytest.approx(expected)
        assert constant.expected(job) == 7e6
        peak = float(jobs.work.bandwidth_bps[job])
        for source in (constant, means):
            source.learn(job, peak)
        seen.setdefault(key, []).append(peak)


def test_a_reactive_placement_avoids_links_that_are_measured_as_busy() -> None:
    """Three clusters of 5, on each of which a job leaves 2 free. Job 4 takes 2 and 1, job 5 would take 2 and 1, too."""
    columns = [(0, 100, 3), (0, 100, 3), (0, 100, 3), (1, 50, 3), (2, 10, 3)]
    submit, run, processors = (np.array(column) for column in zip(*columns, strict=True))
    jobs = Workload(submit * 1.0, run * 1.0, run * 1.0, processors, np.arange(5), Counter())
    work = CommunicatingJobs(jobs, np.full(5, 10e6), np.full(5, 0.5))
    drawn = SyntheticWorkload(work, np.full(5, 10e6), [Question()] * 5)

    def simulated(uplink_bps: float) -> CoSimulation:
        simulation = CoSimulation(
            work,
            Clusters((5, 5, 5), (uplink_bps,) * 3),
            lambda requests: Scheduler(requests, PLACEMENTS["reactive"], bandwidth_source("oracle", drawn)),
        )
        assert simulation.advance(100)
        return simulation

    # Job 4 moves 2 * 1 / 2 * 10 Mb/s over both of its links; job 5 shares one of them.
    wide, narrow = simulated(1e9), simulated(12e6)
    assert wide.allocations[3] == narrow.allocations[3] == ((0, 2), (1, 1))
    assert (wide.start_s[4], wide.allocations[4]) == (2.0, ((2, 2), (1, 1)))
    # Of 12 Mb/s, 10 are in use, more than 0.8: job 5 waits until job 4 ends.
    assert narrow.start_s[4] == narrow.end_s[3] == 51.0
