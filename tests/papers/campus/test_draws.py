"""Machines, owners and jobs: drawn as described, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from jobsight_papers.ranking.job_sets import SETS
from jobsight_papers.ranking.owners import OwnerSettings, campus_machines, draw_availability

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


def test_owners_without_opening_hours_are_exponential_and_as_many_as_published() -> None:
    machines = campus_machines(np.random.default_rng(0))
    flat = OwnerSettings(closed_share=1.0, idle_sigma=0.0)
    drawn = draw_availability(np.random.default_rng(1), machines, flat, 0.0, 60 * DAY)
    idle = np.concatenate(
        [
            (end - begin)[1:-1]
            for begin, end, owned in zip(drawn.begins, drawn.ends, machines.owned, strict=True)
            if owned
        ]
    )
    away = np.concatenate(
        [
            begin[1:] - end[:-1]
            for begin, end, owned in zip(drawn.begins, drawn.ends, machines.owned, strict=True)
            if owned
        ]
    )
    assert idle.mean() == pytest.approx(12 * H, rel=0.02)
    assert away.mean() == pytest.approx(2.5 * H, rel=0.02)
    assert stats.kstest(away[:2000], "expon", args=(0, 2.5 * H)).pvalue > 0.01
    shares = []
    for seed, day in enumerate((1.2, 3.4, 5.6, 0.1, 4.5, 6.9), 1):
        week = draw_availability(np.random.default_rng(seed), machines, OwnerSettings(), 0.0, 7 * DAY)
        there = [(begin <= day * DAY) & (day * DAY < end) for begin, end in zip(week.begins, week.ends, strict=True)]
        shares.append(1.0 - sum(one.any() for one in there) / len(machines))
    assert np.mean(shares) == pytest.approx(97 / 546, abs=0.04)


def test_the_published_counts() -> None:
    shares = {number: (of.counted(of.first_come), of.counted(of.grv)) for number, of in SETS.items()}
    assert shares[1] == pytest.approx((81.9, 91.46), abs=0.01)
    assert shares[2] == pytest.approx((58.42, 76.14), abs=0.01)
    assert shares[3] == pytest.approx((71.38, 86.74), abs=0.01)
    assert shares[4] == pytest.approx((81.56, 67.58), abs=0.01)
