from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_predictor.profile.calibration import ExpertWeights, Forecasts, best_vote, capped_error
from jobsight_predictor.question import GroupKey, JobGroups, Question, job_keys
from jobsight_predictor.series import accuracy


def key_of(user: str | None) -> GroupKey:
    return job_keys(JobGroups(), Question(user), None).user


def score(
    experts: ExpertWeights,
    user: str | None,
    forecasts: Forecasts,
    answered: float | None,
    actual: float,
    at_start: Forecasts,
) -> None:
    """Score a job of the user with these forecasts at submission and at its start."""
    hit = None if answered is None else abs(answered - actual) <= 0.2 * actual
    experts.learn(key_of(user), actual, forecasts, at_start, answered, hit)


def test_capped_error_is_what_accuracy_lacks() -> None:
    for forecast, actual in [(100.0, 100.0), (150.0, 100.0), (0.0, 100.0), (1e9, 1.0), (0.0, 0.0), (3.0, 0.0)]:
        assert capped_error(forecast, actual) == pytest.approx(1.0 - accuracy(forecast, actual))


@settings(deadline=None, max_examples=100)
@given(
    votes=st.dictionaries(st.one_of(st.floats(1e-6, 1e6), st.just(0.0)), st.floats(0.01, 1.0), min_size=1, max_size=8)
)
def test_the_best_voteed_maximises_expected_accuracy_on_a_fine_grid(votes: dict[float, float]) -> None:
    ranking = best_vote(votes)
    expected, value = ranking[0]

    def worth(p: float) -> float:
        return sum(weight * accuracy(p, q) for q, weight in votes.items()) / sum(votes.values())

    assert value in votes
    assert expected == pytest.approx(worth(value), abs=1e-9)
    top = max(votes)
    for p in [*votes, *np.linspace(0.0, 2.5 * top, 300).tolist(), *np.geomspace(1e-6, 1e6, 200).tolist()]:
        assert worth(p) <= expected + 1e-9
    assert [e for e, _ in ranking] == sorted((e for e, _ in ranking), reverse=True)


def test_weights_follow_the_candidate_that_is_right() -> None:
    experts = ExpertWeights(2)
    rng = np.random.default_rng(1)
    for _ in range(100):
        actual = float(rng.uniform(50, 100))
        right, wrong = actual * 1.02, actual * 1.6
        said, reverse = [right, wrong, wrong, wrong], [wrong, right, wrong, wrong]
        score(experts, "x", [(0, said)], right, actual, [(0, reverse)])
    every: Forecasts = [(0, [1.0, 2.0, 3.0, 4.0]), (1, [5.0] * 4)]
    good, bad, *_, new = experts.weights(key_of("x"), "submission", every)
    assert good == 1.0
    assert bad < 1e-3
    assert new < 0.1
    # As jobs start, the other one is right.
    assert experts.weights(key_of("x"), "start", every) == [bad, good, bad, bad, *[new] * 4]
    assert experts.weights(key_of("x"), "start", every[:1]) == [bad, good, bad, bad]
    # A user never seen is given what holds for the site.
    assert experts.weights(key_of("new"), "submission", every)[0] == 1.0
    assert experts.weights(key_of("new"), "start", every)[1] == 1.0


def test_the_mean_error_of_the_answers_is_beside_that_of_each_candidate() -> None:
    experts = ExpertWeights(2)
    exact, half = (0, [100.0] * 4), (1, [50.0, 100.0, 150.0, 300.0])
    for said, answered in (([exact, half], 50.0), ([exact], 100.0), ([exact], None)):
        score(experts, "x", said, answered, 100.0, said)
    losses = experts.users[key_of("x")]
    assert (losses.jobs, losses.answered) == (3, 1.5)
    assert losses.accuracies == [[3.0] * 4, [0.5, 1.0, 0.5, 0.0]]
