"""Where a placement has bandwidths from: what is asked and learned when, and how users err."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import Question
from jobsight_scheduler.coallocation.bandwidth_sources import (
    SOURCES,
    BandwidthSource,
    EstimateError,
    Measured,
    bandwidth_source,
)
from jobsight_scheduler.coallocation.clusters import Allocation, Clusters
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS, Placement
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_scheduler.coallocation.synthetic import SyntheticWorkload, draw_communication
from jobsight_scheduler.prediction import BANDWIDTH, Jobsight
from jobsight_scheduler.workload.canonical import Workload, canonical
from jobsight_scheduler.workload.communicating_jobs import CommunicatingJobs
from jobsight_scheduler.workload.lublin import lublin


def drawn_jobs(count: int = 400) -> SyntheticWorkload:
    trace = lublin(count, 32, seed=1)
    return draw_communication(trace, canonical(trace, 32), seed=2)


def test_errors_of_estimates() -> None:
    drawn = drawn_jobs(3000)
    truth, jobs = drawn.work.bandwidth_bps, range(3000)
    exact, biased, noisy = (
        np.array([bandwidth_source("oracle", drawn, error, seed=1).expected(job) for job in jobs]) / truth
        for error in (EstimateError(), EstimateError(bias=10.0), EstimateError(bias=2.0, noise=0.5))
    )
    assert (exact == 1.0).all()
    np.testing.assert_allclose(biased, 10.0)
    assert np.log(noisy / 2.0).std() == pytest.approx(0.5, rel=0.05)
    assert np.log(noisy / 2.0).mean() == pytest.approx(0.0, abs=0.05)
    assert [bandwidth_source("user", drawn).expected(job) for job in jobs] == drawn.stated_bps.tolist()
    for error in (EstimateError(bias=0.0), EstimateError(bias=float("nan")), EstimateError(noise=-1.0)):
        with pytest.raises(ValueError, match="give a bias above 0 and a noise of 0 or more"):
            bandwidth_source("user", drawn, error)
    with pytest.raises(ValueError, match="unknown bandwidth source 'crystal ball'; choose from user, predicted"):
        bandwidth_source("crystal ball", drawn)


def test_the_same_workload_from_the_same_seed() -> None:
    first, again = drawn_jobs(), drawn_jobs()
    np.testing.assert_array_equal(first.work.bandwidth_bps, again.work.bandwidth_bps)
    assert first.questions == again.questions
    assert all(question.application is not None for question in first.questions)


class Recorded(BandwidthSource):
    """Notes when it is asked and taught, and of what."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.measured: dict[int, Measured] = {}

    def expected(self, job: int) -> float:
        self.told.append(("asked", job))
        return 1.0

    def learn(self, job: int, measured: Measured) -> None:
        self.told.append(("taught", job))
        self.measured[job] = measured

    def state(self) -> None:
        return None

    def restore(self, state: object) -> None:
        raise AssertionError(state)


def test_jobs_are_asked_about_when_they_come_and_taught_when_they_have_ended() -> None:
    def spread(processors: int, *_: object) -> Allocation:
        return ((0, processors - 1), (1, 1))

    count = np.array([3, 3], dtype=np.int64)
    times = np.array([20.0, 10.0])
    jobs = Workload(np.array([1.0, 6.0]), times, times, count, np.arange(2), Counter())
    work = CommunicatingJobs(jobs, np.array([8.0, 24.0]), np.array([0.5, 1.0]))
    recorded = Recorded()
    simulation = CoSimulation(
        work, Clusters((8, 8), (8.0, 8.0)), lambda told: Scheduler(told, Placement(spread, asks=True), recorded)
    )
    assert simulation.advance(100)
    assert recorded.told == [("asked", 0), ("asked", 1), ("taught", 0), ("taught", 1)]
    # The first had 5 s alone; the second began at a quarter of its speed, and had a third of it at the end.
    took = simulation.end_s - simulation.start_s
    assert recorded.measured[0] == Measured(pytest.approx(8.0 * 20.0 / took[0]), 8.0)
    assert recorded.measured[1] == Measured(pytest.approx(24.0 * 10.0 / took[1]), pytest.approx(24.0 / 3.0))


def test_predictions_are_those_of_the_profile_asked_at_submission() -> None:
    questions = [Question(user=f"u{i % 3}", application=f"a{i % 2}", processors=4) for i in range(60)]
    predicted = BandwidthSource(Jobsight(questions, BANDWIDTH), [7.0] * 60)
    profile = Profile("bit/s")
    assert predicted.expected(0) == 7.0  # nothing is known: as stated
    predicted.learn(0, Measured(3.0, 5.0))
    profile.learn(questions[0], 5.0)
    rng = np.random.default_rng(1)
    doubtful = 0
    for i in range(1, 60):
        answer = profile.answer(questions[i])
        assert answer.value is not None
        assert answer.probability is not None
        assert answer.bound is not None
        doubtful += answer.probability <= 0.5
        expected = answer.value if answer.probability > 0.5 else max(answer.value, answer.bound)
        assert predicted.expected(i) == expected
        value = float(rng.uniform(1.0, 9.0)) if i < 30 else 5.0
        predicted.learn(i, Measured(0.0, value))
        profile.learn(questions[i], value)
    assert 0 < doubtful < 59


@pytest.mark.parametrize("name", FIVE)
def test_forecasters_know_their_own_user_only(name: str) -> None:
    drawn = drawn_jobs()
    source = bandwidth_source(name, drawn)
    ours = {question.user: FORECASTERS[name]() for question in drawn.questions}
    for job, question in enumerate(drawn.questions):
        forecast = ours[question.user].forecast()
        assert source.expected(job) == (drawn.stated_bps[job] if forecast is None else forecast)
        value = float(drawn.work.bandwidth_bps[job])
        source.learn(job, Measured(0.0, value))
        ours[question.user].learn(value)


def test_every_source_runs_a_whole_workload() -> None:
    drawn = drawn_jobs()
    for name in SOURCES:
        source = bandwidth_source(name, drawn)
        simulation = CoSimulation(
            drawn.work,
            Clusters((32,) * 4, (1e8,) * 4),
            lambda told, by=source: Scheduler(told, PLACEMENTS["aware"], by),
        )
        assert simulation.advance(800)
