from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_predictor.quality import accuracy
from jobsight_predictor.selection import Ledger, Tournament, capped_error, elect


def test_capped_error_is_what_accuracy_lacks() -> None:
    for forecast, actual in [(100.0, 100.0), (150.0, 100.0), (0.0, 100.0), (1e9, 1.0), (0.0, 0.0), (3.0, 0.0)]:
        assert capped_error(forecast, actual) == pytest.approx(1.0 - accuracy(forecast, actual))


@settings(deadline=None, max_examples=100)
@given(
    votes=st.dictionaries(st.one_of(st.floats(1e-6, 1e6), st.just(0.0)), st.floats(0.01, 1.0), min_size=1, max_size=8)
)
def test_the_elected_maximises_expected_accuracy_on_a_fine_grid(votes: dict[float, float]) -> None:
    ranking = elect(votes)
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
    tournament = Tournament(3)
    rng = np.random.default_rng(1)
    for _ in range(100):
        actual = float(rng.uniform(50, 100))
        tournament.score("x", [actual * 1.02, actual * 1.6, None], actual * 1.02, actual)
    good, bad, silent = tournament.weights("x")
    assert good == 1.0
    assert bad < 1e-3
    assert silent < 0.1
    # A user never seen is given what holds for the site.
    assert tournament.weights("new")[0] == 1.0


def test_regret_is_against_the_best_single_candidate() -> None:
    tournament = Tournament(2)
    tournament.score("x", [100.0, 50.0], 50.0, 100.0)
    tournament.score("x", [100.0, None], 100.0, 100.0)
    tournament.score("x", [100.0, 100.0], None, 100.0)
    regret = tournament.regret("x")
    assert regret is not None
    assert (regret.jobs, regret.answered, regret.best, regret.best_candidate) == (3, 1.5, 0.0, 0)
    assert tournament.regret("nobody") is None


def test_state_goes_through_json_exactly() -> None:
    tournament = Tournament(2)
    rng = np.random.default_rng(2)
    for user in ("x", None, "y") * 10:
        tournament.score(user, [float(rng.uniform(1, 9)), None], 3.0, float(rng.uniform(1, 9)))
    restored = Tournament(2)
    restored.site = Ledger.from_state(json.loads(json.dumps(tournament.site.state())))
    for user, ledger in tournament.users.items():
        restored.users[user] = Ledger.from_state(json.loads(json.dumps(ledger.state())))
    for each in (restored, tournament):
        each.score("x", [4.0, 5.0], 4.0, 5.0)
    assert restored.site.state() == tournament.site.state()
    for user in ("x", None, "y", "new"):
        assert restored.weights(user) == tournament.weights(user)
    assert restored.regret("x") == tournament.regret("x")
