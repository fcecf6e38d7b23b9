"""The interval of a trial's difference: against statsmodels, and with clusters that are alike within."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from tests.make import not_none

from jobsight_predictor.evaluation.trial import difference


def drawn(users: int, jobs: int, effect: float, seed: int) -> tuple[list[float], list[bool], list[str]]:
    """Jobs of users who differ by more than their own jobs do."""
    rng = np.random.default_rng(seed)
    values, arms, names = list[float](), list[bool](), list[str]()
    for user in range(users):
        level, count = rng.lognormal(1.0, 1.0), 1 + rng.poisson(jobs)
        treated = rng.random(count) < 0.5
        values += list(level * rng.lognormal(0.0, 0.3, count) + effect * treated)
        arms += list(treated)
        names += [f"u{user}"] * count
    return values, arms, names


def test_difference_and_interval_agree_with_a_regression_with_clustered_errors() -> None:
    values, arms, names = drawn(40, 20, 1.5, 1)
    found = not_none(difference(values, arms, names))
    place = np.unique(names, return_inverse=True)[1]
    constants = (place[:, None] == np.arange(40)).astype(float)
    fit = sm.OLS(values, np.column_stack([np.asarray(arms, float), constants])).fit(
        cov_type="cluster", cov_kwds={"groups": place, "use_correction": False}
    )
    assert found.low is not None
    assert found.high is not None
    assert found.difference == pytest.approx(fit.params[0])
    # A bootstrap is wider than the normal distribution where a few users run most.
    assert 0.95 < (found.high - found.low) / (2 * 1.96 * fit.bse[0]) < 1.4
    assert found.low < 1.5 < found.high
    assert found == difference(values, arms, names)


def test_without_enough_there_is_no_interval_or_no_difference() -> None:
    assert difference([1.0, 2.0], [True, True], ["a", "b"]) is None
    assert difference([1.0, 2.0], [True, False], ["a", "b"]) is None
    assert difference([], [], []) is None
    few = not_none(difference([1.0, 2.0, 3.0], [True, False, True], ["a", "a", "b"]))
    assert (few.treated, few.control, few.difference, few.low, few.clusters) == (2.0, 2.0, -1.0, None, 1)
    same = not_none(difference([1.0] * 40, [True, False] * 20, [f"u{n // 4}" for n in range(40)]))
    assert (same.difference, same.low, same.high) == (0.0, 0.0, 0.0)
