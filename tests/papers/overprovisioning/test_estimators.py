"""One contract for every estimator in the table."""

from __future__ import annotations

import copy
import pickle
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_papers.overprovisioning.cluster.cases import VARIANTS
from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState
from jobsight_papers.overprovisioning.estimators.by_group import ByGroup
from jobsight_predictor.question import Question

PUBLISHED = ("none", "successive-approximation", "robust-search", "last-instance", "reinforcement", "regression")
EVERY: dict[str, Any] = {name: VARIANTS[name].estimator for name in (*PUBLISHED, "jobsight")}
each = pytest.mark.parametrize("name", list(EVERY))
CAPACITIES = st.lists(st.sampled_from([1.0, 4.0, 8.0, 15.0, 16.0, 24.0, 32.0, 64.0]), min_size=1, unique=True).map(
    sorted
)
JOB = st.tuples(
    st.sampled_from("ab"),  # user
    st.sampled_from([None, "x", "y"]),  # application
    st.sampled_from([1, 16]),  # processors
    st.floats(0.01, 1.0),  # request, of the largest capacity
    st.floats(0.01, 1.0),  # use, of the request
    st.booleans(),  # whether the use is known afterwards
)


def attempts(
    estimator: Estimator, job: Question, requested: float, used: float, known: bool, given_more: int = 0
) -> list[float]:
    """Capacities of a job's attempts until it finishes, as with a scheduler; the last is enough."""
    capacities = estimator.capacities
    system = SystemState((1,) * len(capacities), (2,) * len(capacities), 3)
    least = 0
    given: list[float] = []
    while True:
        asked = estimator.estimate(job, requested, system)
        assert 0.0 < asked <= requested
        highest = bisect_left(capacities, requested)
        place = min(max(bisect_left(capacities, asked), least), highest)
        place_given = min(place + given_more, len(capacities) - 1)
        given.append(capacities[place_given])
        failed = used > capacities[place_given]
        outcome = AttemptOutcome(min(capacities[place], requested), given[-1], failed, used if known else None, system)
        estimator.learn(job, requested, outcome)
        if not failed:
            return given
        least = place_given + 1


@each
@settings(deadline=None, max_examples=80)
@given(capacities=CAPACITIES, jobs=st.lists(JOB, max_size=60), given_more=st.integers(0, 1))
def test_no_stream_of_jobs_makes_it_loop_or_ask_for_more_than_was_requested(
    name: str, capacities: list[float], jobs: list[tuple[str, str | None, int, float, float, bool]], given_more: int
) -> None:
    estimator = EVERY[name](capacities)
    for user, application, processors, share, use, known in jobs:
        requested = share * capacities[-1]
        question = Question(user, application, None, processors, requested, 60.0)
        given = attempts(estimator, question, requested, use * requested, known, given_more)
        assert len(given) <= len(capacities)
        assert given == sorted(set(given))  # never again what failed
        assert given[-1] >= use * requested


@each
def test_a_new_group_that_nothing_is_known_of(name: str) -> None:
    estimator = EVERY[name]([8.0, 16.0, 32.0])
    assert 0.0 < estimator.estimate(Question(user="a"), 32.0) <= 32.0
    assert estimator.estimate(Question(user="a"), 5.0) == 5.0  # the smallest node has more


@each
def test_asking_changes_nothing_and_a_copy_goes_on_alike(name: str) -> None:
    estimator = EVERY[name]([8.0, 16.0, 32.0])
    question = Question("a", "x", None, 4, 32.0, 60.0)
    for used in (4.0, 12.0, 20.0) * 30:
        attempts(estimator, question, 32.0, used, known=True)
        before = estimator.estimate(question, 32.0)
        assert [estimator.estimate(question, 32.0) for _ in range(3)] == [before] * 3
    copies = [copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))]
    for used in (4.0, 30.0, 6.0) * 10:
        ours = attempts(estimator, question, 32.0, used, known=False)
        assert [attempts(other, question, 32.0, used, known=False) for other in copies] == [ours] * 2


@each
@pytest.mark.parametrize("known", [True, False])
def test_where_every_request_is_double_it_asks_for_a_half(name: str, known: bool) -> None:
    capacities = [4.0, 8.0, 16.0, 32.0, 64.0]
    estimator = EVERY[name](capacities)
    failures = 0
    for i in range(600):
        requested = capacities[1 + i % 4]
        question = Question(f"u{i % 3}", "x", None, 2 ** (i % 3), requested, 60.0)
        failures += len(attempts(estimator, question, requested, requested / 2.0, known)) - 1
    asked = [
        estimator.rounded(estimator.estimate(Question("u1", "x", None, 4, requested, 60.0), requested, None))
        for requested in capacities[1:]
    ]
    assert failures <= 60
    if name == "none" or (name in ("last-instance", "regression") and not known):
        assert asked == capacities[1:]
    elif name == "reinforcement":  # its state includes the cluster's; asked without it, it knows nothing
        system = SystemState((1,) * 5, (2,) * 5, 3)
        asked = [estimator.estimate(Question(), requested, system) for requested in capacities[1:]]
        assert asked == capacities[:-1]
    else:
        assert asked == capacities[:-1]


@each
@pytest.mark.parametrize("capacities", [[], [2.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
def test_capacities_that_make_no_sense_are_refused(name: str, capacities: list[float]) -> None:
    with pytest.raises(ValueError, match="ascending and above 0"):
        EVERY[name](capacities)


@each
def test_a_job_may_fail_with_more_than_the_largest_capacity(name: str) -> None:
    estimator = EVERY[name]([8.0, 16.0, 32.0])
    job = Question("a", "x", None, 4, 100.0, 60.0)
    for too_little in (100.0, 50.0, 32.0, 100.0):
        estimator.learn(job, 100.0, AttemptOutcome(too_little, too_little, failed=True))
        assert 0.0 < estimator.estimate(job, 100.0) <= 100.0
    if name == "jobsight":
        assert estimator.estimate(job, 100.0) == 100.0


def test_how_likely_a_failure_is() -> None:
    """By hand, p = (1 + p) / (n + 1) on each of four levels, from one half: .040001 for n = 25, .038462 for 26."""
    job = Question("a", "x", None, 4, 32.0, 60.0)
    for jobs, enough in ((25, 16.0), (26, 8.0)):
        estimator = ByGroup([8.0, 16.0, 32.0])
        for used in (9.0, *[5.0] * (jobs - 1)):
            estimator.learn(job, 32.0, AttemptOutcome(32.0, 32.0, failed=False, used=used))
        assert estimator.estimate(job, 32.0) == enough


def test_a_capacity_is_tried_until_a_known_use_speaks_against_it() -> None:
    job = Question("a", "x", None, 4, 32.0, 60.0)
    estimator = ByGroup([8.0, 16.0, 32.0])
    assert estimator.estimate(job, 32.0) == 8.0
    for _ in range(20):
        estimator.learn(job, 32.0, AttemptOutcome(32.0, 32.0, failed=False))
    assert estimator.estimate(job, 32.0) == 8.0
    for _ in range(3):
        estimator.learn(job, 32.0, AttemptOutcome(32.0, 32.0, failed=False, used=10.0))
    assert estimator.estimate(job, 32.0) == 16.0
