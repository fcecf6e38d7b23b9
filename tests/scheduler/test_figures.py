"""Means with their certainty."""

from __future__ import annotations

import numpy as np
import pytest
from tests.make import not_none

from jobsight_scheduler.figures import resampled, resampled_each


@pytest.mark.parametrize(("spread", "least"), [(0.5, 0.91), (1.0, 0.87)])
def test_intervals_over_eight_weeks_contain_the_mean_as_often_as_said(spread: float, least: float) -> None:
    """The level of waits differs between weeks, as a lognormal. Percentiles of means contained it in 87 and 77 %."""
    rng = np.random.default_rng(2)
    contained = 0
    for _ in range(300):
        jobs = rng.poisson(rng.lognormal(3.0, 0.5, 8)) + 1
        week = np.repeat(np.arange(8), jobs)
        _, low, high = resampled(rng.lognormal(0.0, spread, 8)[week], week)
        assert low is not None
        assert high is not None
        contained += low <= np.exp(spread**2 / 2.0) <= high
    assert least <= contained / 300 <= 0.98


def test_no_interval_of_waits_begins_below_zero() -> None:
    week = np.repeat(np.arange(8), 5)
    waits = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 30.0, 90.0])[week]
    _, low, _ = resampled(waits, week)
    _, low_of_differences, _ = resampled(waits - 1e-9, week)
    assert low == 0.0
    assert low_of_differences is not None
    assert low_of_differences < 0.0


def test_one_week_that_differs_from_all_others_says_nothing_of_the_mean() -> None:
    week = np.repeat(np.arange(9), 5)
    assert resampled((week == 0) * 9.0, week) == [1.0, None, None]


def test_equal_groups_have_no_interval_and_nothing_no_mean() -> None:
    week = np.repeat(np.arange(3), 5)
    assert resampled(np.ones(15), week) == [1.0, 1.0, 1.0]
    assert resampled(np.zeros(15), week, np.zeros(15)) == [None, None, None]


def test_one_group_says_nothing_of_others() -> None:
    assert resampled(np.array([1.0, 3.0]), np.zeros(2, dtype=np.int64)) == [2.0, None, None]


def test_intervals_over_five_users_contain_the_sum_more_often_than_percentiles() -> None:
    """Amounts of users as lognormals, at 90 %: percentiles of the draws contained the truth in 67 %."""
    found = resampled_each(np.random.default_rng(1).lognormal(0.0, 1.0, (500, 5)), np.ones(5), 0.9)
    assert 0.8 <= np.mean([not_none(low) <= np.exp(0.5) <= not_none(high) for _, low, high in found]) <= 0.92
