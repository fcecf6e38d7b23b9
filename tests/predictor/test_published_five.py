"""The five against implementations that share no code with ours, and against the published numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.forecasters.published import (
    Exponential,
    History,
    Locality,
    SlidingWindow,
    UnclippedExponential,
    Weighted,
)
from jobsight_predictor.series import FiveParameters, make_five

SERIES = {
    "steady": np.random.default_rng(1).normal(500, 20, 300),
    "switching": np.repeat([200.0, 800.0, 450.0], 60),
    "heavy tail": np.random.default_rng(2).lognormal(6, 1.5, 400),
    "spikes": np.where(np.arange(200) % 17 == 0, 900.0, 30.0),
}
each_series = pytest.mark.parametrize("values", list(SERIES.values()), ids=list(SERIES))


def after_each(forecaster: object, values: np.ndarray) -> list[float]:
    forecasts = []
    for value in values.tolist():
        forecaster.learn(value)  # type: ignore[attr-defined]
        forecasts.append(forecaster.forecast())  # type: ignore[attr-defined]
    return forecasts


@each_series
def test_history_is_the_expanding_mean(values: np.ndarray) -> None:
    assert after_each(History(), values) == pytest.approx(pd.Series(values).expanding().mean().to_numpy())


@each_series
@pytest.mark.parametrize("window", [1, 5, 12])
def test_sliding_window_is_the_rolling_mean(values: np.ndarray, window: int) -> None:
    expected = pd.Series(values).rolling(window, min_periods=1).mean().to_numpy()
    assert after_each(SlidingWindow(window), values) == pytest.approx(expected)


@each_series
def test_locality_is_the_last_value(values: np.ndarray) -> None:
    assert after_each(Locality(), values) == values.tolist()


def test_browns_vector() -> None:
    values = np.array([200.0, 200, 800, 800, 800, 800, 800, 800])
    expected = [200, 200, 800, 950, 950, 912.5, 875, 846.875]
    assert after_each(UnclippedExponential(0.5), values) == pytest.approx(expected)
    assert after_each(Exponential(0.5), values) == pytest.approx(np.minimum(expected, 800.0))


@each_series
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8])
def test_exponential_is_ewm_twice(values: np.ndarray, alpha: float) -> None:
    single = pd.Series(values).ewm(alpha=alpha, adjust=False).mean()
    double = single.ewm(alpha=alpha, adjust=False).mean()
    expected = (2 * single - double + alpha / (1 - alpha) * (single - double)).to_numpy()
    assert after_each(UnclippedExponential(alpha), values) == pytest.approx(expected)
    clipped = np.clip(expected, np.minimum.accumulate(values), np.maximum.accumulate(values))
    assert after_each(Exponential(alpha), values) == pytest.approx(clipped)


def histogram_oracle(values: np.ndarray, bins: int) -> float:
    if values.min() == values.max():
        return float(values[0])
    counts, edges = np.histogram(values, bins)
    sums, _ = np.histogram(values, edges, weights=values)
    return float((counts * sums).sum() / (counts**2).sum())


@each_series
def test_weighted_is_the_histogram(values: np.ndarray) -> None:
    expected = [histogram_oracle(values[: i + 1], 10) for i in range(len(values))]
    assert after_each(Weighted(), values) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=150)
@given(values=st.lists(st.integers(0, 50), min_size=1, max_size=80), bins=st.integers(1, 12))
def test_weighted_agrees_on_values_that_fall_on_edges(values: list[int], bins: int) -> None:
    series = np.array(values, dtype=float)
    forecasts = after_each(Weighted(bins, memory=20 * bins + 80), series)
    expected = [histogram_oracle(series[: i + 1], bins) for i in range(len(series))]
    assert forecasts == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1000))
def test_weighted_beyond_its_memory_stays_close_to_the_whole_history(seed: int) -> None:
    values = np.random.default_rng(seed).gamma(3.0, 100.0, 4000)
    assume(len(values) > 500)
    weighted = Weighted(memory=500)
    for i, value in enumerate(values.tolist()):
        weighted.learn(value)
        if i % 97 == 0:
            # Not exact: a cell of merged values moves as one when the range widens.
            assert weighted.forecast() == pytest.approx(histogram_oracle(values[: i + 1], 10), rel=0.05)


def test_weighted_beyond_its_memory_is_exact_while_the_range_stays() -> None:
    rng = np.random.default_rng(8)
    values = np.concatenate([[0.0, 1000.0], rng.uniform(0, 1000, 5000)])
    weighted = Weighted(memory=300)
    for value in values.tolist():
        weighted.learn(value)
    assert weighted.forecast() == pytest.approx(histogram_oracle(values, 10), rel=1e-9)


def test_parameters_reach_the_five_which_keep_their_order() -> None:
    five = make_five(FiveParameters(window=6, bins=200, alpha=0.1))
    assert tuple(five) == FIVE
    states = {name: forecaster.state() for name, forecaster in five.items()}
    assert (states["sliding-window"]["window"], states["weighted"]["bins"], states["exponential"]["alpha"]) == (
        6, 200, 0.1
    )  # fmt: skip
