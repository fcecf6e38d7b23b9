from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_predictor.profile.probability import ExpertLosses, ExpertWeights, best_vote, capped_error
from jobsight_predictor.series import accuracy


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

    def score(p: float) -> float:
        return sum(weight * accuracy(p, q) for q, weight in votes.items()) / sum(votes.values())

    assert value in votes
    assert expected == pytest.approx(score(value), abs=1e-9)
    top = max(votes)
    for p in [*votes, *np.linspace(0.0, 2.5 * top, 300).tolist(), *np.geomspace(1e-6, 1e6, 200).tolist()]:
        assert score(p) <= expected + 1e-9
    assert [e for e, _ in ranking] == sorted((e for e, _ in ranking), reverse=True)


def test_weights_follow_the_candidate_that_is_right() -> None:
    experts = ExpertWeights(3)
    rng = np.random.default_rng(1)
    for _ in range(100):
        actual = float(rng.uniform(50, 100))
        experts.score("x", [actual * 1.02, actual * 1.6, None], actual * 1.02, actual)
    good, bad, silent = experts.weights("x")
    assert good == 1.0
    assert bad < 1e-3
    assert silent < 0.1
    # A user never seen is given what holds for the site.
    assert experts.weights("new")[0] == 1.0


def test_mean_error_is_against_the_best_single_expert() -> None:
    experts = ExpertWeights(2)
    experts.score("x", [100.0, 50.0], 50.0, 100.0)
    experts.score("x", [100.0, None], 100.0, 100.0)
    experts.score("x", [100.0, 100.0], None, 100.0)
    error = experts.mean_error("x")
    assert error is not None
    assert (error.jobs, error.answered, error.best, error.best_expert) == (3, 0.5, 0.0, 0)
    assert experts.mean_error("nobody") is None


def test_state_goes_through_json_exactly() -> None:
    experts = ExpertWeights(2)
    rng = np.random.default_rng(2)
    for user in ("x", None, "y") * 10:
        experts.score(user, [float(rng.uniform(1, 9)), None], 3.0, float(rng.uniform(1, 9)))
    restored = ExpertWeights(2)
    restored.site = ExpertLosses.from_state(json.loads(json.dumps(experts.site.state())))
    for user, losses in experts.users.items():
        restored.users[user] = ExpertLosses.from_state(json.loads(json.dumps(losses.state())))
    for each in (restored, experts):
        each.score("x", [4.0, 5.0], 4.0, 5.0)
    assert restored.site.state() == experts.site.state()
    for user in ("x", None, "y", "new"):
        assert restored.weights(user) == experts.weights(user)
    assert restored.mean_error("x") == experts.mean_error("x")
