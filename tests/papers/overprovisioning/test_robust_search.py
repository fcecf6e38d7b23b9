"""Groups whose jobs differ: split where a field distinguishes them; a few failures are allowed where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator
from jobsight_papers.overprovisioning.estimators.robust_search import RobustSearch
from jobsight_papers.overprovisioning.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question

CAPACITIES = [8.0, 16.0, 32.0, 64.0]
REQUESTED = 64.0


def failures(estimator: Estimator, uses: Iterable[float], processors_of: Callable[[float], int]) -> int:
    """Run jobs one after the other; one that fails runs again at its request."""
    count = 0
    for used in uses:
        job = Question("a", "x", None, processors_of(used), REQUESTED, 60.0)
        given = estimator.estimate(job, REQUESTED)
        if used > given:
            estimator.learn(job, REQUESTED, AttemptOutcome(given, given, failed=True))
            count += 1
            given = REQUESTED
        estimator.learn(job, REQUESTED, AttemptOutcome(given, given, failed=False))
    return count


def asked(estimator: Estimator, processors: int) -> float:
    return estimator.estimate(Question("a", "x", None, processors, REQUESTED, 60.0), REQUESTED)


def test_a_group_is_split_by_the_field_that_distinguishes_its_jobs() -> None:
    estimator = RobustSearch(CAPACITIES)
    wrong = failures(estimator, [12.0, 12.0, 12.0, 18.0, 12.0, 18.0] * 20, lambda used: 1 if used < 16.0 else 4)
    assert (asked(estimator, 1), asked(estimator, 4)) == (16.0, 32.0)
    assert wrong <= 4 + 0.05 * 120  # the first of each part, and what the risk allows
    published = SuccessiveApproximation(CAPACITIES)
    failures(published, [12.0, 12.0, 12.0, 18.0, 12.0, 18.0] * 20, lambda used: 1 if used < 16.0 else 4)
    assert asked(published, 1) == 32.0


def test_a_rare_large_job_does_not_hold_the_others_up() -> None:
    estimator = RobustSearch(CAPACITIES)
    uses = ([12.0] * 49 + [18.0]) * 20
    assert failures(estimator, uses, lambda _: 1) <= 0.05 * len(uses) + 4
    given = 0
    for used in uses:
        given += asked(estimator, 1) == 16.0
        failures(estimator, [used], lambda _: 1)
    assert given > 0.8 * len(uses)


def test_indistinguishable_jobs_fail_within_the_risk() -> None:
    estimator = RobustSearch(CAPACITIES)
    uses = [12.0, 18.0] * 500
    assert failures(estimator, uses, lambda _: 1) <= 0.05 * len(uses) + 4
