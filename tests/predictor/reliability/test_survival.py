"""Survival of machines against known distributions, scipy, and integrals."""

from __future__ import annotations

from math import gamma

import numpy as np
import pytest
from scipy import integrate, stats

from jobsight_predictor.reliability.fading import HALF_LIFE_S, faded, faded_span
from jobsight_predictor.reliability.rank import ranked
from jobsight_predictor.reliability.survival import AGES_S, Survival

H, DAY = 3600.0, 86_400.0


def learned_from_weibull(shape: float, scale: np.ndarray, days: int, seed: int) -> Survival:  # type: ignore[type-arg]
    """Sessions of Weibull distributed lengths, learned day by day; what was seen is as of the end of each day."""
    rng, machines = np.random.default_rng(seed), len(scale)
    sessions = []
    for machine in range(machines):
        at = -rng.random() * 5 * DAY
        while at < days * DAY:
            length = scale[machine] * rng.weibull(shape)
            sessions.append((machine, at, at + length))
            at += length + 2.5 * H
    number, begin, end = np.array(sessions).T
    learned = Survival(machines)
    for day in range(days):
        since, until = day * DAY, (day + 1) * DAY
        of = (begin < until) & (end > since)
        seen = np.maximum(begin[of], since), np.minimum(end[of], until)
        learned.learn(number[of].astype(np.int64), begin[of], *seen, end[of] <= until, seen[1])
    return learned


def test_a_known_weibull_is_found_with_true_intervals() -> None:
    shape, days = 0.7, 28
    scale = 12.0 * H * np.exp(np.random.default_rng(3).normal(0.0, 1.0, 500))
    learned = learned_from_weibull(shape, scale, days, seed=3)
    covered = []
    for age_s in (0.0, H, 4 * H, 20 * H):
        for run_s in (600.0, 6 * H, 48 * H):
            found = learned.chance(np.arange(500), np.full(500, age_s), run_s)
            truth = np.exp((age_s / scale) ** shape - ((age_s + run_s) / scale) ** shape)
            assert abs((found.mean - truth).mean()) < 0.04
            assert np.abs(found.mean - truth).mean() < 0.07
            if run_s > H:  # else the ranges of ages are too wide: off by less than .01, but so is the interval
                covered.append(((truth >= found.low) & (truth <= found.high)).mean())
    assert 0.7 < np.mean(covered) < 0.9, "intervals of 80 %"


def test_who_has_stayed_stays_only_where_most_sessions_end_early() -> None:
    """Machines alike: the young are first to go if lengths have a shape of .5, and no different if it is 1."""
    young_old = np.array([0.0, 20 * H])
    for shape in (0.5, 1.0):
        learned = learned_from_weibull(shape, np.full(60, 12.0 * H / gamma(1.0 + 1.0 / shape)), 28, seed=4)
        young, old = learned.chance(np.array([0, 0]), young_old, 6 * H).mean
        assert (old - young > 0.2) == (shape < 1.0)
        assert old > young - 0.1


def test_the_chance_is_the_integral_over_the_gamma_distribution() -> None:
    learned = Survival(3)
    learned.events[:] = [0.0, 4.0, 30.0]
    learned.weighted[:] = learned.seconds[:] = [DAY, 5 * DAY, 10 * DAY]
    rate, shape = learned.spread()
    found = learned.chance(np.arange(3), np.zeros(3), 5 * H)
    z = stats.gamma(shape + learned.events, scale=1.0 / (shape + rate * learned.weighted))
    for machine in range(3):
        one = stats.gamma(shape + learned.events[machine], scale=1.0 / (shape + rate * learned.weighted[machine]))
        mean = integrate.quad(lambda x, one=one: np.exp(-x * rate * 5 * H) * one.pdf(x), 0.0, np.inf)[0]
        assert found.mean[machine] == pytest.approx(mean, abs=1e-6)
    assert found.low == pytest.approx(np.exp(-z.ppf(0.9) * rate * 5 * H), abs=5e-3)
    assert found.high == pytest.approx(np.exp(-z.ppf(0.1) * rate * 5 * H), abs=5e-3)


def test_every_second_and_event_counts_once_at_its_age_less_what_faded() -> None:
    rng = np.random.default_rng(5)
    began = rng.uniform(0, 1e6, 200)
    start = began + rng.uniform(0, 1e5, 200)
    end = start + np.where(rng.random(200) < 0.1, 0.0, rng.uniform(0, 3e5, 200))
    ended, now = rng.random(200) < 0.5, 2e6
    learned = Survival(200)
    learned.learn(np.arange(200), began, start, end, ended, now)
    for machine in range(200):
        seen = integrate.quad(lambda at: faded(now - at), start[machine], end[machine])[0]
        assert learned.seconds[machine] == pytest.approx(seen, abs=1e-3)
    assert learned.events == pytest.approx(ended * faded(now - end))
    places = np.maximum(np.searchsorted(AGES_S, end - began) - 1, 0)
    assert learned.age_events == pytest.approx(np.bincount(places, learned.events, len(AGES_S)))
    assert learned.age_weighted == pytest.approx(
        [
            sum(
                integrate.quad(lambda at: faded(now - at), low, high)[0]
                for low, high in zip(np.maximum(start, began + first), np.minimum(end, began + last), strict=True)
                if high > low
            )
            for first, last in zip(AGES_S, [*AGES_S[1:], 1e12], strict=True)
        ]
    ), "nothing was known: every machine's own factor was 1"


def test_evictions_of_a_year_ago_do_not_rank_a_machine_last() -> None:
    """Three a day, in a log that is read now, beside machines that go away once in three days."""
    learned, times = Survival(5), np.arange(90)
    for machine in range(5):
        began = times * (8 * H if machine == 0 else 72 * H) - (0.0 if machine == 0 else 90 * 72 * H)
        length = 7 * H if machine == 0 else 71 * H
        now = 395 * DAY if machine == 0 else 0.0
        learned.learn(np.full(90, machine), began, began, began + length, times >= 0, now)
    learned.learn(np.array([0]), np.array([0.0]), np.array([0.0]), np.array([2 * DAY]), np.array([False]), 2 * DAY)
    assert learned.chance(np.arange(5), np.full(5, H), 6 * H).mean.argmin() != 0


def test_machines_without_history_are_average_uncertain_and_not_first() -> None:
    learned = learned_from_weibull(1.0, 12.0 * H * np.exp(np.random.default_rng(5).normal(0.0, 1.0, 53)), 28, seed=5)
    for sums in (learned.events, learned.seconds, learned.weighted):
        sums[50:] = 0.0
    learned.events[50], learned.seconds[51] = 1.0, 9.0
    found = learned.chance(np.arange(53), np.full(53, H), 6 * H)
    assert found.known.tolist() == [True] * 51 + [False] * 2
    width = found.high - found.low
    assert width[52] > 2.0 * width[:50].mean()
    assert found.mean[:50].min() < found.mean[52] < found.mean[:50].max()
    assert ranked(*found).order.tolist().index(52) > 5


def test_nothing_learned_and_odd_questions() -> None:
    learned, both = Survival(2), np.arange(2)
    assert learned.chance(both, np.array([np.nan, 1e30]), 0.0).mean.tolist() == [1.0, 1.0]
    assert learned.chance(both, np.zeros(2), DAY).mean == pytest.approx([0.5, 0.5])
    found = learned.chance(both, np.array([-5.0, np.inf]), 1e11)
    assert ((found.low >= 0.0) & (found.mean < 1e-5) & (found.high <= 1.0)).all()
    none = np.empty(0)
    learned.learn(none.astype(np.int64), none, none, none, none > 0.0, 0.0)
    learned.learn(np.array([0]), np.zeros(1), np.zeros(1), np.array([1e15]), np.array([True]), 1e15)
    assert learned.seconds[0] == pytest.approx(HALF_LIFE_S / np.log(2.0))


def test_fading_keeps_the_estimate_and_widens_the_interval() -> None:
    assert faded(HALF_LIFE_S) == 0.5
    assert faded_span(40 * DAY, 3 * DAY) == pytest.approx(integrate.quad(faded, 3 * DAY, 40 * DAY)[0])
    learned = learned_from_weibull(1.0, 12.0 * H * np.exp(np.random.default_rng(6).normal(0.0, 1.0, 50)), 28, seed=6)
    before = learned.chance(np.arange(50), np.full(50, H), 6 * H)
    learned.fade(0.25)
    after = learned.chance(np.arange(50), np.full(50, H), 6 * H)
    assert after.mean == pytest.approx(before.mean, abs=0.1)
    assert ((after.high - after.low) > (before.high - before.low)).mean() > 0.9
