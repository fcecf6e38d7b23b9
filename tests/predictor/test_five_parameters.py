"""Window, bins and alpha reach the forecasters in replays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.evaluation.replay import replay_forecaster
from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.forecasters.parameters import FiveParameters, make_five
from jobsight_predictor.question import Question

VALUES = np.random.default_rng(5).lognormal(3.0, 0.5, 60)
PARAMETERS = FiveParameters(window=6, bins=4, alpha=0.1)


def reference(name: str) -> float:
    """The forecast after all values, from pandas and numpy."""
    series = pd.Series(VALUES)
    if name == "sliding-window":
        return float(series.rolling(6).mean().iloc[-1])
    if name == "weighted":
        counts, edges = np.histogram(VALUES, 4)
        sums, _ = np.histogram(VALUES, edges, weights=VALUES)
        return float((counts * sums).sum() / (counts**2).sum())
    single = series.ewm(alpha=0.1, adjust=False).mean()
    double = single.ewm(alpha=0.1, adjust=False).mean()
    return float((2 * single - double + 0.1 / 0.9 * (single - double)).iloc[-1])


@pytest.mark.parametrize("name", ["sliding-window", "weighted", "exponential"])
def test_forecasts_agree_with_references(name: str) -> None:
    times = np.arange(60.0)
    jobs = Jobs("t", "memory", [Question("u")] * 60, times, times + 0.5, VALUES, np.ones(60), np.full(60, np.nan))
    said = replay_forecaster(name, jobs, [np.arange(60)], "completion", parameters=PARAMETERS)
    forecaster = make_five(PARAMETERS)[name]
    for i, value in enumerate(VALUES.tolist()):
        assert said[i] == pytest.approx(forecaster.forecast() or np.nan, nan_ok=True)
        forecaster.learn(value)
    assert forecaster.forecast() == pytest.approx(reference(name))


def test_the_five_keep_their_order_and_many_bins_their_memory() -> None:
    assert tuple(make_five(FiveParameters(bins=200))) == FIVE


@pytest.mark.parametrize(
    "wrong",
    [{"window": 0}, {"window": 10**30}, {"bins": 0}, {"bins": 201}, {"alpha": 0.0}, {"alpha": 1.0}, {"alpha": np.nan}],
)
def test_parameters_out_of_bounds_are_named(wrong: dict[str, float]) -> None:
    ((name, _),) = wrong.items()
    with pytest.raises(ValueError, match=f"^{name} is "):
        FiveParameters(**wrong)  # type: ignore[arg-type]
