"""The forecasters beside the published five, each against an oracle that shares no code with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.tsa.ar_model import AutoReg

from jobsight_predictor.forecasters import Autoregressive, DecayedMode, Forecaster, Median, Quantile, Seasonal
from jobsight_predictor.quality import accuracy

SERIES = {
    "steady": np.random.default_rng(1).normal(500, 20, 150),
    "switching": np.repeat([200.0, 800.0, 450.0], 50),
    "heavy tail": np.random.default_rng(2).lognormal(6, 1.5, 150),
}
each_series = pytest.mark.parametrize("values", list(SERIES.values()), ids=list(SERIES))


def after_each(forecaster: Forecaster, values: np.ndarray) -> list[float | None]:
    forecasts = []
    for value in values.tolist():
        forecaster.learn(value)
        forecasts.append(forecaster.forecast())
    return forecasts


@each_series
@pytest.mark.parametrize("window", [1, 4, 5])
def test_median_is_the_rolling_lower_median(values: np.ndarray, window: int) -> None:
    expected = pd.Series(values).rolling(window, min_periods=1).quantile(0.5, interpolation="lower").to_numpy()
    assert after_each(Median(window), values) == pytest.approx(expected)


@each_series
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_quantile_is_the_inverted_weighted_distribution(values: np.ndarray, quantile: float) -> None:
    forecasts = after_each(Quantile(quantile, alpha=0.1, memory=64), values)
    for i, forecast in enumerate(forecasts):
        recent = values[max(0, i - 63) : i + 1]
        weights = 0.9 ** np.arange(len(recent))[::-1]
        expected = np.quantile(recent, quantile, weights=weights, method="inverted_cdf")
        assert forecast == pytest.approx(expected)


@each_series
@pytest.mark.parametrize("period", [1, 7, 24])
def test_seasonal_of_a_known_period_is_the_series_shifted(values: np.ndarray, period: int) -> None:
    series = pd.Series(values)
    expected = series.shift(period - 1).fillna(series).to_numpy()
    assert after_each(Seasonal(period), values) == pytest.approx(expected)


def period_by_definition(values: list[float], longest: int) -> int:
    held = {}
    for lag in range(1, longest + 1):
        disagree = [i for i in range(lag, len(values)) if not abs(values[i - lag] - values[i]) <= 0.2 * values[i]]
        held[lag] = len(values) - 1 - max(disagree, default=lag - 1)
    periods = [lag for lag in held if held[lag] >= lag]
    return max(periods, key=lambda lag: (held[lag], -lag), default=1)


@settings(deadline=None, max_examples=200)
@given(values=st.lists(st.sampled_from([0.0, 10.0, 11.0, 14.0, 1e-300]), min_size=1, max_size=40))
def test_seasonal_finds_the_period_by_definition(values: list[float]) -> None:
    forecasts = after_each(Seasonal(longest=6), np.array(values))
    for i, forecast in enumerate(forecasts):
        period = period_by_definition(values[: i + 1], 6)
        assert forecast == values[max(0, i + 1 - period) if period <= i + 1 else i]
    replayed = Seasonal(longest=6).replay(np.array(values))
    assert replayed.tolist()[1:] == forecasts[:-1]


def test_seasonal_follows_a_period_and_sleeps_through_a_spike() -> None:
    values = np.tile([100.0, 100.0, 700.0], 12)
    assert Seasonal().replay(values)[6:].tolist() == values[6:].tolist()
    spiked = np.full(60, 50.0)
    spiked[20] = 900.0
    forecasts = Seasonal().replay(spiked)
    assert np.flatnonzero(forecasts[1:] != 50.0).tolist() == [20]  # only the one right after it


def test_autoregressive_forecasts_as_statsmodels_does() -> None:
    rng = np.random.default_rng(3)
    values = [500.0, 500.0, 500.0]
    for _ in range(197):
        values.append(100 + 0.5 * values[-1] + 0.3 * values[-3] + rng.normal(0, 5))
    forecaster = Autoregressive(lags=3, memory=200)
    for value in values:
        forecaster.learn(value)
    fitted_at = 12 + 50 * 3  # after 4 values a lag, then after each quarter of the memory
    fit = AutoReg(np.array(values[:fitted_at]), lags=3, trend="c").fit()
    expected = fit.params[0] + fit.params[1:] @ np.array(values[-1:-4:-1])
    assert forecaster.forecast() == pytest.approx(expected, rel=1e-6)
    errors = [abs(f - v) for f, v in zip(Autoregressive().replay(np.array(values))[100:], values[100:], strict=True)]
    assert np.mean(errors) < 6.0  # the noise alone gives 4


def mode_oracle(values: list[float], fade: float) -> float:
    """The score of every value, by its definition."""

    def score(place: float) -> float:
        return sum(fade ** (len(values) - 1 - i) * accuracy(place, value) for i, value in enumerate(values))

    return max(score(place) for place in values)


@settings(deadline=None, max_examples=80)
@given(values=st.lists(st.sampled_from([0.0, 10.0, 12.0, 19.0, 45.0, 46.0, 300.0, 1e-300]), min_size=1, max_size=40))
def test_mode_is_the_best_place_by_definition(values: list[float]) -> None:
    mode = DecayedMode((0.8, 0.97, 0.995))
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


def test_mode_before_it_learned() -> None:
    with pytest.raises(LookupError, match="nothing learned yet"):
        DecayedMode().best()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Median(0), "window is 0"),
        (lambda: Quantile(1.0), r"quantile is 1\.0"),
        (lambda: Autoregressive(3, 10), "memory 10"),
        (lambda: Seasonal(25), "period is 25, longest 24"),
        (lambda: DecayedMode((0.5, 1.0, 0.9)), "fades are"),
    ],
)
def test_impossible_parameters_are_refused(make: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make()  # type: ignore[operator]
