"""Machines, owners and jobs: drawn as described, the same for the same seed."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import stats

from jobsight_papers.ranking.draws import draw
from jobsight_papers.ranking.job_sets import SETS, draw_jobs
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


def test_owners_come_in_opening_hours() -> None:
    machines = campus_machines(np.random.default_rng(0))
    drawn = draw_availability(
        np.random.default_rng(3), machines, OwnerSettings(), 4 * DAY, 32 * DAY
    )  # from a Monday on
    ends = np.concatenate([end[end < 32 * DAY] for end in drawn.ends])
    came = np.array([24 * at.weekday() + at.hour for at in (datetime.fromtimestamp(end, UTC) for end in ends)])
    by_hour = np.bincount(came % 24, weights=(came < 120).astype(float), minlength=24)
    assert by_hour[10:16].mean() > 3.0 * by_hour[0:6].mean()
    assert (came >= 120).sum() / 2 < 0.7 * (came < 120).sum() / 5, "some departments open on Saturdays"
    assert all(np.isinf(end).all() for end, owned in zip(drawn.ends, machines.owned, strict=True) if not owned)


def test_sessions_ascend_and_do_not_overlap() -> None:
    machines = campus_machines(np.random.default_rng(0), 0.4)
    drawn = draw_availability(np.random.default_rng(4), machines, OwnerSettings(prefer_fast=2.0), 0.0, 20 * DAY)
    for begin, end in zip(drawn.begins, drawn.ends, strict=True):
        assert (end > begin).all()
        assert (begin[1:] > end[:-1]).all()


def test_jobs_offer_the_load_and_the_same_seed_the_same_jobs() -> None:
    jobs = draw_jobs(np.random.default_rng(7), 6000, 3.0, 0.3, 500.0)
    assert jobs.work_s.mean() == pytest.approx(3 * H, rel=0.05)
    assert jobs.work_s.std() / jobs.work_s.mean() == pytest.approx(1.07, abs=0.3)
    assert 3 * H / np.diff(jobs.submit_s).mean() / 500.0 == pytest.approx(0.3, rel=0.05)
    assert stats.spearmanr(jobs.predicted_s, jobs.work_s).statistic > 0.4
    one, other = (draw.__wrapped__(2, None, 0.3, 5, "departments") for _ in range(2))
    assert one.jobs.work_s.tolist() == other.jobs.work_s.tolist()
    assert [ends.tolist() for ends in one.availability.ends] == [ends.tolist() for ends in other.availability.ends]
    assert draw.__wrapped__(2, None, 0.3, 6, "departments").jobs.work_s[0] != one.jobs.work_s[0]


def test_the_published_counts() -> None:
    shares = {number: (of.counted(of.first_come), of.counted(of.grv)) for number, of in SETS.items()}
    assert shares[1] == pytest.approx((81.9, 91.46), abs=0.01)
    assert shares[2] == pytest.approx((58.42, 76.14), abs=0.01)
    assert shares[3] == pytest.approx((71.38, 86.74), abs=0.01)
    assert shares[4] == pytest.approx((81.56, 67.58), abs=0.01)
