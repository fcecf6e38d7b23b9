from __future__ import annotations

import numpy as np
import pytest

from jobsight_predictor.evaluation.scores import calibration, hindsight


def test_calibration_counts_each_claim_once() -> None:
    rng = np.random.default_rng(1)
    claimed = rng.uniform(0, 1, 20_000)
    came = rng.uniform(0, 1, 20_000) < claimed
    claimed[:100] = np.nan
    claimed[100], came[100] = 1.0, True
    steps = calibration(claimed, came)
    assert len(steps) == 10
    assert sum(step["jobs"] for step in steps) == 19_900
    for k, step in enumerate(steps):
        assert k / 10 <= step["probability"] <= (k + 1) / 10
        assert step["hit_rate"] == pytest.approx(step["probability"], abs=0.05)
    assert calibration(np.array([np.nan]), np.array([True])) == []


def test_hindsight_takes_the_best_of_each_user() -> None:
    users = [np.array([0, 1, 5]), np.array([2]), np.array([3, 4])]
    values = np.ones(6)
    first = np.array([1.0, 2.0, 2.0, 0.4, 0.4, np.nan])
    second = np.array([0.2, 0.2, 0.5, 0.5, 0.5, np.nan])
    best = hindsight([first, second], values, users, ~np.isnan(first))
    assert best["micro"] == pytest.approx((1.0 + 0.5 + 1.0) / 5)  # of the job without any forecast nothing is asked
    assert best["macro"] == pytest.approx((0.5 + 0.5) / 2)  # the user with a single job is left out
    silent = np.full(2, np.nan)
    assert hindsight([silent], np.ones(2), [np.array([0, 1])], ~np.isnan(silent)) == {"micro": None, "macro": None}
