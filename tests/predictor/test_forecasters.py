"""One contract for every forecaster in the table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_predictor.forecasters import FORECASTERS
from jobsight_predictor.forecasters.base import LARGEST, Forecaster

each = pytest.mark.parametrize("name", list(FORECASTERS))
values_strategy = st.lists(
    st.one_of(st.floats(0, 1e12), st.sampled_from([0.0, 1.0, 1e-300, 1e300, 5e-324])), max_size=60
)
property_settings = settings(deadline=None, max_examples=60)


def learned(name: str, values: list[float]) -> Forecaster:
    forecaster = FORECASTERS[name]()
    for value in values:
        forecaster.learn(value)
    return forecaster


@each
def test_asked_before_it_learned_anything(name: str) -> None:
    assert FORECASTERS[name]().forecast() is None


@each
@property_settings
@given(values=values_strategy)
@example(values=[1e300] * 60)
@example(values=[7.5] * 60)
@example(values=[1e-300] * 60)
@example(values=[0.0] * 59 + [1e300])
def test_forecast_lies_within_what_was_seen(name: str, values: list[float]) -> None:
    forecaster = FORECASTERS[name]()
    for i, value in enumerate(values):
        forecaster.learn(value)
        forecast = not_none(forecaster.forecast())
        assert math.isfinite(forecast)
        seen = values[: i + 1]
        assert min(seen) * (1 - 1e-9) <= forecast <= max(seen) * (1 + 1e-9)


LONG_AND_AWKWARD = {
    "a spike in a constant": [5.0] * 700 + [1e300] + [5.0] * 700,
    "a spike in zeros": [0.0] * 700 + [1e300] + [0.0] * 700,
    "spikes in next to nothing": [1e-300] * 700 + [1e300, 1e300] + [1e-300] * 700,
    "nothing and everything": [0.0, 1e300] * 700,
    "smallest of all": [5e-324 * (k * 7 % 50) for k in range(1400)],
    "ever higher": [1.1**k for k in range(1400)],
    "ever lower": [1e300 * 0.9**k for k in range(1400)],
}


@each
@pytest.mark.parametrize("values", list(LONG_AND_AWKWARD.values()), ids=list(LONG_AND_AWKWARD))
def test_awkward_series_beyond_every_memory(name: str, values: list[float]) -> None:
    forecaster = FORECASTERS[name]()
    for value in values:
        forecaster.learn(value)
        forecast = not_none(forecaster.forecast())
        assert 0.0 <= forecast <= LARGEST
    replayed = FORECASTERS[name]().replay(np.array(values))[1:]
    assert ((replayed >= 0.0) & (replayed <= LARGEST)).all()
    text = json.dumps(forecaster.state(), allow_nan=False)
    assert FORECASTERS[name].from_state(json.loads(text)).forecast() == forecaster.forecast()


@each
def test_replay_leaves_the_forecaster_alone(name: str) -> None:
    forecaster = learned(name, [4.0, 9.0])
    before = forecaster.state()
    forecaster.replay(np.array([1.0, 2.0, 3.0]))
    assert forecaster.state() == before


@each
@property_settings
@given(values=values_strategy, more=values_strategy)
def test_state_goes_through_json_exactly(name: str, values: list[float], more: list[float]) -> None:
    forecaster = learned(name, values)
    text = json.dumps(forecaster.state(), allow_nan=False)
    restored = FORECASTERS[name].from_state(json.loads(text))
    assert restored.state() == forecaster.state()
    for value in more:
        assert restored.forecast() == forecaster.forecast()
        restored.learn(value)
        forecaster.learn(value)
    assert restored.forecast() == forecaster.forecast()


@each
def test_long_history_restores_exactly_and_stays_small(name: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(5, 2, 5000).tolist()
    forecaster = learned(name, values)
    text = json.dumps(forecaster.state())
    assert len(text) < 16_000
    restored = FORECASTERS[name].from_state(json.loads(text))
    for value in rng.lognormal(5, 3, 1500).tolist():
        assert restored.forecast() == forecaster.forecast()
        restored.learn(value)
        forecaster.learn(value)


@each
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, -5e-324, LARGEST * 10])
def test_no_measurement_is_refused_by_name(name: str, bad: float) -> None:
    forecaster = learned(name, [4.0, 9.0])
    before = forecaster.state()
    with pytest.raises(ValueError, match=str(bad).replace("+", r"\+")):
        forecaster.learn(bad)
    assert forecaster.state() == before
    with pytest.raises(ValueError, match=str(bad).replace("+", r"\+")):
        forecaster.replay(np.array([1.0, bad, 2.0]))
