from __future__ import annotations

import numpy as np
import pytest

from jobsight_predictor.profile.calibration import FEATURES, HitProbability


def test_it_learns_probabilities_that_come_true() -> None:
    rng = np.random.default_rng(6)
    hit_probability = HitProbability()
    given, came = [], []
    for i in range(20_000):
        features = rng.uniform(0, 1, len(FEATURES)).tolist()
        true = 1.0 / (1.0 + np.exp(-(4.0 * features[1] - 2.0 - features[3])))
        hit = bool(rng.uniform() < true)
        if i > 10_000:
            given.append(hit_probability.probability(features))
            came.append(hit)
        hit_probability.learn(features, hit)
    given_, came_ = np.array(given), np.array(came)
    for low in (0.1, 0.3, 0.5, 0.7):
        inside = (given_ >= low) & (given_ < low + 0.2)
        assert came_[inside].mean() == pytest.approx(given_[inside].mean(), abs=0.06)
