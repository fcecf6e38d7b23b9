"""The exact form of run-time risk, and the fast one beside it, against random draws and direct summation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from jobsight_papers.overbooking.exact_risk import (
    executable,
    finish_of_running,
    finish_of_waiting,
    run_lags,
    start_time,
)
from jobsight_predictor.runtime.accuracy import GRID, RuntimeAccuracy
from jobsight_predictor.runtime.success import ends_of_running, ends_of_waiting, executable_by_scenarios, scenario_order

SMOOTH = RuntimeAccuracy(beta.cdf(GRID, 0.6, 0.9), 1000.0, "beta")


def chain(step_h: float) -> tuple[float, float]:
    """P_executable of the third job of a chain: exact form, and its start before 2 h."""
    running = finish_of_running(-1.0, 4.0, 3.0, 0.0, SMOOTH, step_h)
    second = finish_of_waiting(start_time(0.35, 3.0, [running], step_h), run_lags(5.0, SMOOTH, step_h), 8.0, step_h)
    third = start_time(0.73, 8.0, [second], step_h)
    return executable(third, 11.0, 6.0, SMOOTH), float(third.mass[third.times_h < 2.0].sum())


def test_a_chain_agrees_with_random_draws() -> None:
    rng = np.random.default_rng(5)
    draws = 400_000
    run = 4.0 * np.interp(rng.uniform(float(SMOOTH.within(0.25)), 1.0, draws), SMOOTH.cdf, GRID)
    ends = np.minimum(-1.0 + run, 3.0)
    ends = np.minimum(np.maximum(0.35, ends) + 5.0 * np.interp(rng.random(draws), SMOOTH.cdf, GRID), 8.0)
    starts = np.maximum(0.73, ends)
    success = starts + 6.0 * np.interp(rng.random(draws), SMOOTH.cdf, GRID) <= 11.0
    error = 4.0 * np.sqrt(0.25 / draws)
    assert chain(0.01)[0] == pytest.approx(success.mean(), abs=error)
    assert chain(0.1)[0] == pytest.approx(success.mean(), abs=0.004)
    assert chain(0.01)[1] == pytest.approx((starts < 2.0).mean(), abs=0.01)

    first = ends_of_running(scenario_order(1), -1.0, 4.0, 3.0, 0.0, SMOOTH)
    second = ends_of_waiting(np.maximum(0.35, first), 5.0 * SMOOTH.quantiles(scenario_order(2)), 8.0)
    fast = executable_by_scenarios(np.maximum(0.73, second), 11.0, 6.0, SMOOTH)
    assert fast == pytest.approx(success.mean(), abs=0.02)
