from __future__ import annotations

import numpy as np
import pytest
from tests.make import not_none

from jobsight_predictor.evaluation.cost import reservation_cost
from jobsight_predictor.evaluation.equal_failures import TRIES, at_equal_failures

RNG = np.random.default_rng(2)
VALUES = RNG.lognormal(0.0, 1.0, 4000)
SECONDS = np.ones(4000)


def bounds_at(target: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The exact quantile: the best single number for all."""
    return np.full(len(VALUES), np.quantile(VALUES, target))


def test_the_target_is_found_that_fails_as_often() -> None:
    noisy = np.quantile(VALUES, 0.9) * RNG.uniform(0.5, 2.0, len(VALUES))
    found = not_none(at_equal_failures(noisy, VALUES, SECONDS, bounds_at, 0.99))
    theirs = not_none(reservation_cost(noisy, VALUES, SECONDS))
    assert (found["baseline_failures"], found["baseline_maq"]) == (theirs.failures, theirs.maq)
    assert 0.9 * theirs.failures <= found["failures"] <= theirs.failures
    assert found["maq"] > theirs.maq
    assert found["failures"] == pytest.approx((1 - found["target"]) * len(VALUES), abs=1)


def test_the_first_target_will_do_where_it_is_better_in_both() -> None:
    tried: list[float] = []

    def counted(target: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        tried.append(target)
        return bounds_at(target)

    wasteful = np.where(VALUES > 1.0, 0.5, 100.0)
    found = not_none(at_equal_failures(wasteful, VALUES, SECONDS, counted, 0.9))
    assert tried == [found["target"]] == [0.9]
    assert (found["failures"], found["baseline_failures"]) == (400, int((VALUES > 1.0).sum()))


def test_only_jobs_that_both_reserved_for_count() -> None:
    baseline = np.full(len(VALUES), 3.0)
    baseline[::2] = np.nan
    found = not_none(at_equal_failures(baseline, VALUES, SECONDS, bounds_at, 0.99))
    assert found["jobs"] == len(VALUES) // 2
    assert found["baseline_failures"] == int((VALUES[1::2] > 3.0).sum())


def test_tries_are_few_and_the_closest_is_kept_where_none_is_good_enough() -> None:
    tried: list[float] = []

    def stubborn(target: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        tried.append(target)
        return bounds_at(min(target, 0.9))

    found = not_none(at_equal_failures(np.full(len(VALUES), VALUES.max()), VALUES, SECONDS, stubborn, 0.5))
    assert len(tried) <= TRIES
    assert all(0 < target < 1 for target in tried)
    assert found["failures"] == 400 > found["baseline_failures"] == 0


def test_without_reservations_there_is_no_comparison() -> None:
    nothing = np.full(len(VALUES), np.nan)
    assert at_equal_failures(nothing, VALUES, SECONDS, bounds_at, 0.99) is None
    assert at_equal_failures(VALUES, VALUES, SECONDS, lambda _: nothing, 0.5) is None
