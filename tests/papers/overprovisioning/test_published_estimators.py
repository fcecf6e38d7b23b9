"""Examples of Yom-Tov and Aridor (2006), and what the families that they name should find."""

from __future__ import annotations

import numpy as np
import pytest

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator
from jobsight_papers.overprovisioning.estimators.by_group import ByGroup
from jobsight_papers.overprovisioning.estimators.last_instance import LastInstance
from jobsight_papers.overprovisioning.estimators.regression import Regression
from jobsight_papers.overprovisioning.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question

JOB = Question("user", "application", None, 4, 32.0, 60.0)


def cycles(estimator: Estimator, requested: float, uses: list[float]) -> list[float]:
    """Capacities given for each of the uses; a failed job runs again at its request."""
    given = []
    for used in uses:
        capacity = estimator.rounded(estimator.estimate(JOB, requested))
        given.append(capacity)
        failed = used > capacity
        estimator.learn(JOB, requested, AttemptOutcome(min(capacity, requested), capacity, failed))
        if failed:
            most = estimator.rounded(requested)
            estimator.learn(JOB, requested, AttemptOutcome(requested, most, False))
    return given


def test_alpha_2_ends_at_24_of_32_24_4() -> None:
    assert cycles(SuccessiveApproximation([4.0, 24.0, 32.0], alpha=2.0), 32.0, [4.0] * 5) == [32, 24, 24, 24, 24]


def test_alpha_10_ends_at_4_or_is_back_at_32() -> None:
    capacities = [4.0, 24.0, 32.0]
    assert cycles(SuccessiveApproximation(capacities, alpha=10.0), 32.0, [4.0] * 4) == [32, 4, 4, 4]
    assert cycles(SuccessiveApproximation(capacities, alpha=10.0), 32.0, [5.0] * 4) == [32, 4, 32, 32]


@pytest.mark.parametrize(("alpha", "end"), [(2.0, 15.0), (1.2, 30.0)])
def test_a_smaller_alpha_need_not_reach_the_next_capacity(alpha: float, end: float) -> None:
    assert cycles(SuccessiveApproximation([15.0, 30.0], alpha=alpha), 20.0, [10.0] * 9)[-1] == end


def test_uses_of_12_and_then_18_end_at_32() -> None:
    given = cycles(SuccessiveApproximation([8.0, 16.0, 32.0, 64.0]), 64.0, [12.0] * 4 + [18.0] * 4)
    assert given == [64, 32, 16, 8, 16, 32, 32, 32]


def test_jobs_of_one_group_that_use_12_or_18_fail_a_bounded_number_of_times() -> None:
    """As printed, the algorithm goes back to what failed for other jobs, and fails for ever."""
    uses = [12.0, 18.0] * 50
    given = cycles(SuccessiveApproximation([8.0, 16.0, 32.0, 64.0], beta=0.9), 64.0, uses)
    assert sum(used > capacity for used, capacity in zip(uses, given, strict=True)) <= 3
    assert given[-1] == 32.0


@pytest.mark.parametrize(("beta", "end"), [(0.0, 32.0), (0.5, 16.0)])
def test_beta_goes_on_more_carefully_after_a_failure(beta: float, end: float) -> None:
    """A quarter of 32 fails; by half the step 16 is found to be enough."""
    estimator = SuccessiveApproximation([8.0, 16.0, 32.0], alpha=4.0, beta=beta)
    assert cycles(estimator, 32.0, [12.0] * 6) == [32.0, 8.0, *[end] * 4]


@pytest.mark.parametrize("arguments", [{"alpha": 1.0}, {"alpha": float("nan")}, {"beta": 1.0}, {"beta": -0.1}])
def test_step_sizes_that_make_no_sense_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        SuccessiveApproximation([1.0], **arguments)


def test_last_instance_follows_what_was_used_and_starts_over_after_a_failure() -> None:
    estimator = LastInstance([8.0, 16.0, 32.0])
    estimator.learn(JOB, 32.0, AttemptOutcome(32.0, 32.0, False, 5.0))
    assert estimator.estimate(JOB, 32.0) == 5.0
    estimator.learn(JOB, 32.0, AttemptOutcome(8.0, 8.0, True))
    assert estimator.estimate(JOB, 32.0) == 32.0


def test_regression_finds_a_power_law() -> None:
    """Use is the request times ``0.9 / sqrt(processors)``; 5 % of the jobs may need more than the estimate."""
    rng = np.random.default_rng(2)
    estimator, excess = Regression([1.0, 1000.0]), list[float]()
    for i in range(1500):
        processors, requested = int(2 ** rng.integers(0, 8)), float(rng.uniform(100.0, 900.0))
        question = Question("u", None, None, processors, requested, 3600.0)
        used = 0.9 * requested / processors**0.5
        if i >= 1000:
            excess.append(abs(estimator.estimate(question, requested) / used - 1.0))
        estimator.learn(question, requested, AttemptOutcome(requested, 1000.0, False, used))
    assert max(excess) < 0.01


def test_jobsight_tries_less_once_in_a_group_and_learns_from_wider_ones() -> None:
    estimator = ByGroup([16.0, 32.0])
    assert cycles(estimator, 32.0, [20.0] * 5) == [16, 32, 32, 32, 32]
    # A new group of the same user: its own trial, but after many groups that failed no more.
    for i in range(60):
        job = Question("user", f"a{i}", None, 4, 32.0, 60.0)
        capacity = estimator.estimate(job, 32.0)
        estimator.learn(job, 32.0, AttemptOutcome(capacity, capacity, capacity < 20.0))
    assert estimator.estimate(Question("user", "new", None, 4, 32.0, 60.0), 32.0) == 32.0
