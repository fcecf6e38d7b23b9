"""The first bad day of planted breaks, and how often there is one where nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

from jobsight_predictor.evaluation.breaks import Break, find_break

Rng = np.random.Generator


def series(
    rng: Rng, levels: np.ndarray, jobs_a_day: float, noise: float, of_days: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Days with jobs of accuracies about the day's level: ``noise`` of each job, and ``of_days`` that a day's share."""
    counts = rng.poisson(jobs_a_day, len(levels))
    days = np.flatnonzero(counts)
    shared = levels[days] + rng.normal(0.0, of_days, len(days))
    sums = [np.clip(rng.normal(level, noise, n), 0, 1).sum() for level, n in zip(shared, counts[days], strict=True)]
    return days, counts[days].astype(float), np.array(sums)


def broken(size: float, at: int, length: int = 60) -> np.ndarray:
    return np.where(np.arange(length) < at, 0.9, 0.9 - size)


# Means of accuracy fall by ``size``; jobs scatter by ``noise`` about the mean, days besides by ``of_days``.
@pytest.mark.parametrize(
    ("size", "noise", "of_days", "jobs_a_day", "found_at_least"),
    [
        (0.40, 0.05, 0.00, 5, 0.99),
        (0.40, 0.20, 0.00, 5, 0.97),
        (0.40, 0.20, 0.05, 20, 0.97),
        (0.40, 0.30, 0.05, 20, 0.95),
        (0.25, 0.05, 0.00, 5, 0.99),
        (0.25, 0.20, 0.00, 20, 0.97),
        (0.25, 0.20, 0.05, 20, 0.90),
        (0.15, 0.05, 0.00, 20, 0.99),
    ],
)
def test_a_planted_break_is_dated_within_a_day(
    size: float, noise: float, of_days: float, jobs_a_day: float, found_at_least: float
) -> None:
    rng, within = np.random.default_rng(7), 0
    for number in range(300):
        at = 15 + number % 40
        found = find_break(*series(rng, broken(size, at), jobs_a_day, noise, of_days))
        within += found is not None and abs(found.day - at) <= 1
    assert within / 300 >= found_at_least


@pytest.mark.exhaustive
@pytest.mark.parametrize("days", [10, 30, 60, 365])
@pytest.mark.parametrize(
    ("level", "noise", "of_days", "jobs_a_day"),
    [(0.9, 0.1, 0.0, 5), (0.9, 0.3, 0.05, 2), (0.6, 0.3, 0.0, 20), (0.6, 0.2, 0.15, 20), (0.5, 0.5, 0.0, 1)],
)
def test_noise_alone_is_no_break(days: int, level: float, noise: float, of_days: float, jobs_a_day: float) -> None:
    rng = np.random.default_rng(11)
    alarms = sum(
        find_break(*series(rng, np.full(days, level), jobs_a_day, noise, of_days)) is not None for _ in range(1000)
    )
    assert alarms <= 2


def test_who_has_recovered_is_not_broken() -> None:
    rng = np.random.default_rng(3)
    levels = np.where((np.arange(60) >= 20) & (np.arange(60) < 40), 0.4, 0.9)
    assert find_break(*series(rng, levels, 20, 0.1)) is None


def test_what_is_found_is_written_as_it_is() -> None:
    days, ones = np.arange(100, 120), np.full(20, 10.0)
    sums = np.where(days < 112, 9.5, 5.5)
    assert find_break(days, ones, sums) == Break(
        112, pytest.approx(0.95), pytest.approx(0.55), pytest.approx(55.4, 0.01)
    )
    assert find_break(days, ones, np.full(20, 9.5)) is None
    assert find_break(days[:3], ones[:3], sums[:3]) is None
    assert find_break(days, ones, np.where(days < 119, 9.5, 0.0)) is None  # a single bad day
    assert find_break(days, ones, np.where(days < 112, 5.5, 9.5)) is None  # better than before
