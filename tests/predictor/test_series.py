from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.series import Series, accuracy


def test_nothing_learned_has_a_reason() -> None:
    answer = Series().answer()
    assert answer.value is None
    assert answer.forecaster is None
    assert answer.n == 0
    assert answer.forecasts == dict.fromkeys(FIVE)
    assert answer.accuracies == dict.fromkeys(FIVE)
    assert "no history" in not_none(answer.reason)


def test_one_value_is_an_answer_without_quality() -> None:
    series = Series()
    series.learn(40.0)
    answer = series.answer()
    assert answer.value == 40.0
    assert answer.pqm is None
    assert answer.reason is None
    assert answer.last_values == (40.0,)


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.sampled_from([0.0, 1e-300, 3.0, 4.0, 40.0, 1e300]), min_size=2, max_size=30))
def test_accuracies_are_the_means_of_the_accuracy_of_each_forecast(values: list[float]) -> None:
    series = Series()
    scores: dict[str, list[float]] = {name: [] for name in FIVE}
    for i, value in enumerate(values):
        for name, forecast in series.answer().forecasts.items() if i else ():
            scores[name].append(accuracy(not_none(forecast), value))
        series.learn(value)
    for name, mean in series.answer().accuracies.items():
        assert mean == pytest.approx(np.mean(scores[name]))


def test_uses_the_forecaster_that_has_been_right() -> None:
    alternating = Series()
    for i in range(100):
        alternating.learn(80.0 if i % 2 else 120.0)
    answer = alternating.answer()
    assert answer.forecaster != "locality"
    assert answer.value == pytest.approx(100.0, rel=0.1)
    switched = Series()
    for value in [100.0] * 50 + [700.0] * 3:
        switched.learn(value)
    assert switched.answer().forecaster == "locality"
    assert switched.answer().value == 700.0


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.one_of(st.floats(0, 1e9), st.sampled_from([0.0, 1e300, 1e-300])), max_size=50))
def test_state_goes_through_json_exactly(values: list[float]) -> None:
    series = Series()
    for value in values:
        series.learn(value)
    restored = Series.from_state(json.loads(json.dumps(series.state(), allow_nan=False)))
    assert restored.state() == series.state()
    assert restored.answer() == series.answer()
    restored.learn(3.0)
    series.learn(3.0)
    assert restored.answer() == series.answer()
    value = not_none(series.answer().value)
    assert math.isfinite(value)
    assert value >= 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -3.0])
def test_no_measurement_changes_nothing(bad: float) -> None:
    series = Series()
    series.learn(5.0)
    before = series.state()
    with pytest.raises(ValueError, match="cannot learn"):
        series.learn(bad)
    assert series.state() == before
