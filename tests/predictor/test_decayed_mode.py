"""The decayed mode, against an oracle that shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_predictor.forecasters.decayed_mode import DecayedMode
from jobsight_predictor.series import accuracy


def mode_oracle(values: list[float], fade: float) -> float:
    """The score of every value, by its definition."""

    def score(place: float) -> float:
        return sum(fade ** (len(values) - 1 - i) * accuracy(place, value) for i, value in enumerate(values))

    return max(score(place) for place in values)


@settings(deadline=None, max_examples=80)
@given(values=st.lists(st.sampled_from([0.0, 10.0, 12.0, 19.0, 45.0, 46.0, 300.0, 1e-300]), min_size=1, max_size=40))
def test_mode_is_the_best_place_by_definition(values: list[float]) -> None:
    mode = DecayedMode()
    for value in values:
        mode.learn(value)
    short_of_shifts, medium, long = mode.best()
    for place, fade in ((medium, 0.97), (long, 0.995)):
        scored = sum(fade ** (len(values) - 1 - i) * accuracy(place, value) for i, value in enumerate(values))
        assert scored == pytest.approx(mode_oracle(values, fade))
    assert short_of_shifts in values


def test_mode_with_more_places_than_it_keeps_is_near_the_best() -> None:
    rng = np.random.default_rng(11)
    values = rng.lognormal(5, 0.8, 400).tolist()
    mode = DecayedMode()
    shares = []
    for i, value in enumerate(values):
        mode.learn(value)
        if i > 50 and i % 25 == 0:
            seen = values[: i + 1]
            place = mode.best()[2]
            scored = sum(0.995 ** (i - k) * accuracy(place, seen[k]) for k in range(i + 1))
            shares.append(scored / mode_oracle(seen, 0.995))
    assert min(shares) > 0.9
    assert np.mean(shares) > 0.97


def test_mode_follows_a_switch_within_two_and_sleeps_through_a_spike() -> None:
    mode = DecayedMode()
    for value in [100.0] * 60 + [700.0]:
        mode.learn(value)
    assert mode.best() == (100.0, 100.0, 100.0)
    mode.learn(705.0)
    assert mode.best()[0] in (700.0, 705.0)
    assert mode.best()[2] == 100.0
