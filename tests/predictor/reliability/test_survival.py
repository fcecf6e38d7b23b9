"""Survival of machines against known distributions, scipy, and exact integrals."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from jobsight_predictor.reliability.exposure import Exposure, cut, hour_of_week, of_sessions
from jobsight_predictor.reliability.rank import ranked
from jobsight_predictor.reliability.sessions import Session
from jobsight_predictor.reliability.survival import Survival, SurvivalSettings

H, DAY = 3600.0, 86_400.0


def weibull_sessions(shape: float, sigma: float, machines: int, days: float, seed: int):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    scale = 12.0 * H * np.exp(rng.normal(0.0, sigma, machines))
    found = []
    for machine in range(machines):
        at = 0.0
        while at < days * DAY:
            length = scale[machine] * rng.weibull(shape)
            found.append((machine, Session(at, at + length, "owner")))
            at += length + 2.5 * H
    return scale, found


def test_pieces_cover_every_second_once() -> None:
    rng = np.random.default_rng(5)
    began = rng.uniform(0, 1e6, 200)
    start = began + rng.uniform(0, 1e5, 200)
    end = start + np.where(rng.random(200) < 0.1, 0.0, rng.uniform(0, 3e5, 200))
    exposure = Exposure(np.arange(200), began, start, end, rng.random(200) < 0.5)
    bounds = np.array([0.0, 1.0, 4.0, 48.0]) * H
    pieces = cut(exposure, bounds, utc_offset_s=1800.0)
    assert np.bincount(pieces.machine, pieces.seconds, 200) == pytest.approx(end - start)
    assert np.bincount(pieces.machine, pieces.events, 200).tolist() == exposure.ended.astype(float).tolist()
    for age, (low, high) in enumerate(zip(bounds, [*bounds[1:], np.inf], strict=True)):
        overlap = np.minimum(end - began, high) - np.maximum(start - began, low)
        assert pieces.seconds[pieces.age == age].sum() == pytest.approx(np.maximum(overlap, 0.0).sum())


def test_hours_of_the_week() -> None:
    monday = 1_699_833_600.0  # Monday, 13 November 2023, 00:00 UTC
    assert hour_of_week(np.array([monday, monday + 3599.0, monday + 25 * H, monday - 1.0])).tolist() == [0, 0, 25, 167]
    assert hour_of_week(np.array([monday]), utc_offset_s=-H).tolist() == [167]


def test_a_known_weibull_is_found_with_true_intervals() -> None:
    shape = 0.7
    scale, sessions = weibull_sessions(shape, 1.0, 500, 28.0, seed=3)
    learned = Survival(np.zeros(500, dtype=np.int64))
    learned.fit(of_sessions(sessions))
    covered = []
    for age_s in (0.0, H, 4 * H, 20 * H):
        for run_s in (600.0, 6 * H, 48 * H):
            found = learned.chance(np.arange(500), np.full(500, age_s), 30 * DAY, run_s)
            truth = np.exp((age_s / scale) ** shape - ((age_s + run_s) / scale) ** shape)
            assert abs((found.mean - truth).mean()) < 0.025
            assert np.abs(found.mean - truth).mean() < 0.05
            if run_s > H:  # else the ranges of ages are too wide: off by less than .01, but so is the interval
                covered.append(((truth >= found.low) & (truth <= found.high)).mean())
    assert 0.7 < np.mean(covered) < 0.9, "intervals of 80 %"


def test_the_chance_is_the_integral_over_the_gamma_distribution() -> None:
    learned = Survival(np.zeros(3, dtype=np.int64), SurvivalSettings(by_age=False, by_hour=False))
    learned.events[:] = [0.0, 4.0, 30.0]
    learned.weighted[:] = learned.seconds[:] = [DAY, 5 * DAY, 10 * DAY]
    base, shape = learned.spread()
    found = learned.chance(np.arange(3), np.zeros(3), 0.0, 5 * H)
    gamma = stats.gamma(shape + learned.events, scale=1.0 / (shape + base * learned.weighted))
    for machine in range(3):
        z = np.random.default_rng(1).gamma(
            shape + learned.events[machine], 1.0 / (shape + base * learned.weighted[machine]), 400_000
        )
        assert found.mean[machine] == pytest.approx(np.exp(-z * base * 5 * H).mean(), abs=1e-3)
    assert found.low == pytest.approx(np.exp(-gamma.ppf(0.9) * base * 5 * H), abs=2e-3)
    assert found.high == pytest.approx(np.exp(-gamma.ppf(0.1) * base * 5 * H), abs=5e-3)


def test_hours_of_a_group_are_learned_and_integrated() -> None:
    """Owners of group 0 come at nine on weekdays, those of group 1 at six in the evening."""
    sessions, rng = [], np.random.default_rng(2)
    for machine in range(40):
        for day in range(28):
            if (day + 3) % 7 < 5:  # 1 January 1970 was a Thursday
                end_s = day * DAY + (9.0 if machine < 20 else 18.0) * H + machine % 20 / 20.0 * H
                sessions.append((machine, Session(end_s - rng.uniform(2.0, 20.0) * H, end_s, "owner")))
    learned = Survival(np.repeat([0, 1], 20))
    learned.fit(of_sessions(sessions))
    both, ages = np.array([0, 20]), np.full(2, 10 * H)
    morning = 28 * DAY + 4 * DAY + 8 * H  # Monday, 8:00
    nine, other = learned.chance(both, ages, morning, 3 * H).mean
    assert nine < 0.05 < 0.6 < other
    other, six = learned.chance(both, ages, morning + 9.5 * H, 2 * H).mean
    assert six < 0.05 < 0.3 < other
    short, long = (learned.chance(both, ages, morning - 8 * H, run_s).mean for run_s in (6 * H, 12 * H))
    assert (short > 0.8).all()
    assert long[0] < 0.05 < 0.5 < long[1]


def test_learning_bit_by_bit_agrees_with_all_at_once() -> None:
    _, sessions = weibull_sessions(1.0, 1.0, 100, 56.0, seed=4)
    whole, bits = (Survival(np.zeros(100, dtype=np.int64)) for _ in range(2))
    whole.fit(of_sessions(sessions))
    for first in range(100):
        bits.learn(of_sessions(sessions[first::100]))
    assert bits.events.tolist() == whole.events.tolist()
    one, other = (of.chance(np.arange(100), np.full(100, H), 60 * DAY, 6 * H) for of in (whole, bits))
    assert other.mean == pytest.approx(one.mean, abs=0.06)


def test_machines_without_history_are_average_uncertain_and_not_first() -> None:
    _, sessions = weibull_sessions(1.0, 1.0, 50, 28.0, seed=5)
    learned = Survival(np.zeros(53, dtype=np.int64))
    learned.fit(of_sessions([*sessions, (50, Session(0.0, 0.0, "owner")), (51, Session(0.0, 9.0, "reinstall"))]))
    found = learned.chance(np.arange(53), np.full(53, H), 30 * DAY, 6 * H)
    assert found.known.tolist() == [True] * 51 + [False] * 2
    width = found.high - found.low
    assert width[52] > 2.0 * width[:50].mean()
    assert found.mean[:50].min() < found.mean[52] < found.mean[:50].max()
    order = ranked(found.mean, found.low, found.high, found.known).order.tolist()
    assert order.index(52) > 5
    learned.forget(7)
    assert learned.chance(np.array([7]), np.array([H]), 30 * DAY, 6 * H).mean == pytest.approx(found.mean[52], rel=0.05)


def test_nothing_learned_and_odd_questions() -> None:
    learned = Survival(np.zeros(2, dtype=np.int64))
    both = np.arange(2)
    assert learned.chance(both, np.array([np.nan, 1e30]), 0.0, 0.0).mean.tolist() == [1.0, 1.0]
    found = learned.chance(both, np.array([-5.0, np.inf]), 1e9, 1e30)
    assert ((found.mean > 0.0) & (found.mean < 0.5)).all()
    for now_s, run_s in ((0.0, -1.0), (0.0, float("nan")), (float("inf"), 1.0)):
        with pytest.raises(ValueError, match="give seconds"):
            learned.chance(both, np.zeros(2), now_s, run_s)
    learned.fit(of_sessions([]))
    learned.fit(of_sessions([(0, Session(0.0, 1e15, "owner"))]))
    assert learned.seconds[0] == pytest.approx(92 * DAY)


def test_fading_keeps_the_estimate_and_widens_the_interval() -> None:
    _, sessions = weibull_sessions(1.0, 1.0, 50, 28.0, seed=6)
    learned = Survival(np.zeros(50, dtype=np.int64))
    learned.fit(of_sessions(sessions))
    before = learned.chance(np.arange(50), np.full(50, H), 30 * DAY, 6 * H)
    learned.fade(0.25)
    after = learned.chance(np.arange(50), np.full(50, H), 30 * DAY, 6 * H)
    assert after.mean == pytest.approx(before.mean, abs=0.1)
    assert ((after.high - after.low) > (before.high - before.low)).mean() > 0.9
    with pytest.raises(ValueError, match="factor 2"):
        learned.fade(2.0)


def test_ten_thousand_machines_within_20_ms() -> None:
    rng = np.random.default_rng(1)
    learned = Survival(rng.integers(0, 20, 10_000))
    learned.events[:] = rng.integers(0, 30, 10_000)
    learned.weighted[:] = learned.seconds[:] = 1e6
    age, everyone = rng.uniform(0.0, 2e5, 10_000), np.arange(10_000)
    took = []
    for run_s in (600.0, 6 * H, 120 * H, 28 * DAY) * 3:
        begun = time.process_time()
        found = learned.chance(everyone, age, 1.7e9 + run_s, run_s)
        ranked(found.mean, found.low, found.high, found.known)
        took.append(time.process_time() - begun)
    assert np.min(took) < 0.02
