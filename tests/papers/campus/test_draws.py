"""Machines, owners and jobs: drawn as described, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from jobsight_papers.ranking.job_sets import SETS
from jobsight_papers.ranking.owners import campus_machines

H, DAY = 3600.0, 86_400.0


def test_machines_are_those_of_the_campus() -> None:
    machines = campus_machines(np.random.default_rng(0))
    assert len(machines) == 546
    assert machines.owned.sum() == 538
    assert np.unique(machines.speed, return_counts=True)[1].tolist() == [538, 4, 4]
    assert len(np.unique(machines.department)) == 9
    spread = campus_machines(np.random.default_rng(0), speed_sigma=0.4)
    assert np.log(spread.speed[spread.owned]).std() == pytest.approx(0.4, abs=0.04)
    assert spread.speed[:4].tolist() == [2.0] * 4


def test_the_published_counts() -> None:
    shares = {number: (of.counted(of.first_come), of.counted(of.grv)) for number, of in SETS.items()}
    assert shares[1] == pytest.approx((81.9, 91.46), abs=0.01)
    assert shares[2] == pytest.approx((58.42, 76.14), abs=0.01)
    assert shares[3] == pytest.approx((71.38, 86.74), abs=0.01)
    assert shares[4] == pytest.approx((81.56, 67.58), abs=0.01)
