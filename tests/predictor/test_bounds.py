from __future__ import annotations

import json

import numpy as np
import pytest

from jobsight_predictor.bounds import Bounds
from jobsight_predictor.forecasters import Crowd


def observed(coverage: float, values: list[float], seconds: float = 60.0) -> tuple[list[bool], float, Bounds]:
    """(whether each job fitted, mean reserved / mean used, the bounds) of a series learned value by value."""
    bounds, crowd = Bounds(coverage), Crowd()
    held, fitted = [], []
    for value in values:
        answer = bounds.reserve([crowd], seconds)
        reserved = None if answer is None else answer[0]
        bounds.score(reserved, value, seconds)
        if reserved is not None:
            held.append(reserved)
            fitted.append(value <= reserved)
        crowd.learn(value)
    assert bounds.observed_coverage == pytest.approx(np.mean(fitted))
    return fitted, float(np.mean(held) / np.mean(values)), bounds


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.9, 0.95])
@pytest.mark.parametrize("kind", ["normal", "heavy", "two levels"])
def test_observed_coverage_becomes_the_chosen_one(coverage: float, kind: str) -> None:
    """A single series is the hard case: nothing but the price can adapt, and it does so over thousands of jobs."""
    rng = np.random.default_rng(7)
    n = 16_000
    values = {
        "normal": rng.normal(1000, 150, n).clip(1),
        "heavy": rng.lognormal(6, 1, n),
        "two levels": rng.choice([100.0, 1000.0], n) * rng.uniform(0.95, 1.05, n),
    }[kind]
    fitted, _, _ = observed(coverage, values.tolist())
    assert np.mean(fitted[-4000:]) == pytest.approx(coverage, abs=0.02)


def test_failures_raise_the_price_and_successes_lower_it() -> None:
    crowd = Crowd()
    for value in np.random.default_rng(5).lognormal(5, 1, 300).tolist():
        crowd.learn(value)

    def reserved_after(failures: int, successes: int) -> float:
        bounds = Bounds(0.9)
        for _ in range(failures):
            bounds.score(1.0, 150.0)
        for _ in range(successes):
            bounds.score(1000.0, 150.0)
        answer = bounds.reserve([crowd])
        assert answer is not None
        return answer[0]

    assert reserved_after(1000, 0) > reserved_after(100, 900) > reserved_after(0, 10_000)


def test_more_coverage_costs_more() -> None:
    values = np.random.default_rng(3).lognormal(6, 1, 4000).tolist()
    costs = [observed(coverage, values)[1] for coverage in (0.7, 0.9, 0.98)]
    assert costs == sorted(costs)


def test_nothing_known_and_nothing_fails() -> None:
    assert Bounds().reserve([Crowd()]) is None
    assert Bounds().reserve([]) is None


def test_the_narrow_group_outweighs_the_wide_one_as_it_grows() -> None:
    wide = Crowd()
    for value in [1000.0] * 100:
        wide.learn(value)
    bounds, narrow = Bounds(), Crowd()
    for value in [100.0] * 300:
        bounds.score(150.0, value, 1.0)
    reserved = []
    for _ in range(60):
        narrow.learn(100.0)
        answer = bounds.reserve([narrow, wide])
        assert answer is not None
        reserved.append(answer)
    assert reserved[0][0] >= 1000.0  # one job of its own against a hundred others
    assert 100.0 <= reserved[-1][0] < 200.0
    bounds_in_order = [bound for bound, _ in reserved]
    assert bounds_in_order == sorted(bounds_in_order, reverse=True)


def test_bound_is_above_what_has_failed() -> None:
    bounds, crowd = Bounds(), Crowd()
    for _ in range(100):
        crowd.learn(10.0)
    for above in (5.0, 10.0, 35.0, 1e6):
        answer = bounds.reserve([crowd], above=above)
        assert answer is not None
        assert answer[0] > above


def test_state_goes_through_json_exactly() -> None:
    _, _, bounds = observed(0.9, np.random.default_rng(1).lognormal(4, 1, 200).tolist())
    restored = Bounds.from_state(0.9, json.loads(json.dumps(bounds.state())))
    assert restored.state() == bounds.state()


@pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5])
def test_impossible_coverage_is_refused(coverage: float) -> None:
    with pytest.raises(ValueError, match=f"coverage is {coverage}"):
        Bounds(coverage)


def test_unknown_length_is_taken_for_the_mean_of_those_known() -> None:
    bounds, crowd = Bounds(), Crowd()
    rng = np.random.default_rng(8)
    for value in rng.lognormal(5, 1, 500).tolist():
        crowd.learn(value)
        bounds.score(1e6, value, float(rng.uniform(3000, 4200)))
    assert bounds.reserve([crowd]) == bounds.reserve([crowd], 3600.0)
    long, unknown, short = (bounds.reserve([crowd], seconds) for seconds in (36e4, None, 36.0))
    assert long is not None
    assert unknown is not None
    assert short is not None
    assert long[0] < unknown[0] < short[0]


def test_another_coverage_is_answered_at_once() -> None:
    bounds, crowd = Bounds(0.95), Crowd()
    for value in np.random.default_rng(9).lognormal(5, 1, 2000).tolist():
        answer = bounds.reserve([crowd], 60.0)
        bounds.score(None if answer is None else answer[0], value, 60.0)
        crowd.learn(value)
    reserved = []
    for coverage in (0.5, 0.8, 0.95, 0.99, 0.999):
        answer = Bounds.from_state(coverage, bounds.state()).reserve([crowd], 60.0)
        assert answer is not None
        reserved.append(answer[0])
    assert reserved == sorted(reserved)
    assert reserved[0] < reserved[2] < reserved[4]
    assert Bounds.from_state(0.95, bounds.state()).reserve([crowd], 60.0) == bounds.reserve([crowd], 60.0)
