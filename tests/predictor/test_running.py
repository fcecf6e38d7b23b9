"""Running jobs: conditioned on what they used so far, the outlook is what counting the jobs beyond that gives."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests import make
from tests.make import not_none

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.prospect import Prospect, stated_near_limit
from jobsight_predictor.profile.running import (
    LIKELY,
    MEMORY_NEAR,
    Outlook,
    grown,
    memory_likely_from,
    memory_runs_out,
    time_likely_from,
    time_runs_out,
)
from jobsight_predictor.question import Question


def learned(values: list[float], metric: str = "memory") -> Outlook:
    question = Question(user="a", application="p", requested_time_s=3600.0)
    profile = Profile("bytes", metric=metric)
    for value in values:
        profile.learn(question, value)
    return profile.outlook(question)


def test_it_agrees_with_counting_the_jobs_that_needed_as_much() -> None:
    """Of the last twelve kinds of values, which the medium memory keeps: places far apart, each as often."""
    values = np.random.default_rng(2).permutation(np.repeat(10.0 * 1.5 ** np.arange(12), 25))
    outlook = learned(values.tolist())
    for so_far, limit in ((12.0, 60.0), (30.0, 100.0), (60.0, 300.0), (1.0, 500.0)):
        beyond = values[values >= so_far]
        assert outlook.exceeds(limit, so_far) == pytest.approx(float((beyond >= limit).mean()), abs=0.08)
        assert outlook.final(so_far) == pytest.approx(float(np.median(beyond)), rel=0.51)


@pytest.mark.parametrize("values", [[], [50.0], np.random.default_rng(1).lognormal(4.0, 1.0, 300).tolist()])
def test_probabilities_are_ordered_and_nothing_known_is_forgotten(values: list[float]) -> None:
    outlook = learned(values)
    assert Outlook.from_state(json.loads(json.dumps(outlook.state()))) == outlook
    grid = np.geomspace(0.1, 1e5, 60).tolist()
    needs = [outlook.needs(value) for value in grid]
    assert needs == sorted(needs, reverse=True)
    assert needs[0] == pytest.approx(1.0)
    for so_far in grid[:-1]:
        chances = [outlook.exceeds(limit, so_far) for limit in grid]
        assert all(0.0 <= chance <= 1.0 for chance in chances)
        assert chances == sorted(chances, reverse=True)
        assert outlook.final(so_far) >= so_far
        # Conditioned step by step as in one.
        middle, far = 2.0 * so_far, 4.0 * so_far
        in_steps = outlook.exceeds(middle, so_far) * outlook.exceeds(far, middle)
        assert outlook.exceeds(far, so_far) == pytest.approx(in_steps, rel=1e-9, abs=1e-12)


def test_a_job_of_users_who_end_in_time_does_not_run_out_and_one_of_the_others_does() -> None:
    in_time, late = learned([3000.0, 3100.0, 3200.0] * 20, "runtime"), learned([3000.0, 7200.0, 7200.0] * 20, "runtime")
    for outlook, low, high in ((in_time, 0.0, 0.3), (late, 0.6, 1.0)):
        found = not_none(time_runs_out(outlook, 2900.0, 3600.0, 900.0))
        assert low <= not_none(found.chance) <= high
        assert (found.soon, found.due_s) == (found.chance, 700.0)
    later = not_none(time_runs_out(late, 2000.0, 3600.0, 900.0))
    assert (later.soon, later.due_s) == (0.0, 1600.0)
    assert time_runs_out(late, 5000.0, 3600.0, 900.0) is None, "nothing stopped it at its limit"
    reached = not_none(time_runs_out(late, 3600.0, 3600.0, 900.0))
    assert reached.chance == 1.0


def test_the_chance_to_reach_the_limit_is_that_of_the_earlier_runs_which_got_as_far() -> None:
    """The user's own runs count more than those of the site, and too few say nothing."""
    profile = Profile("s", metric="runtime")
    early, late = (Question(user=user, application="p", requested_time_s=1000.0) for user in ("early", "late"))

    def chance(question: Question, elapsed_s: float) -> float | None:
        return not_none(time_runs_out(profile.outlook(question), elapsed_s, 1000.0, 600.0)).chance

    for _ in range(20):
        assert chance(late, 300.0) is None
        profile.learn(early, 350.0)
    assert (chance(early, 300.0), chance(late, 300.0), chance(late, 400.0)) == (0.0, 0.0, None)
    for _ in range(20):
        profile.learn(late, 980.0, lower_bound=True)
        profile.learn(late, 900.0)
    assert chance(early, 300.0) == pytest.approx((0 + 2 / 3) / (20 + 2))
    assert chance(late, 300.0) == pytest.approx((20 + 2 / 3) / (40 + 2))
    assert chance(late, 960.0) == 1.0
    assert chance(Question(user="new", requested_time_s=1000.0), 300.0) == pytest.approx(1 / 3)


def test_growth_says_when_and_the_history_whether() -> None:
    outlook = learned([100.0, 190.0, 400.0, 400.0] * 10)
    growing = not_none(memory_runs_out(outlook, 180.0, 0.1, 200.0, 900.0, 3600.0, 600.0))
    flat = not_none(memory_runs_out(outlook, 180.0, 0.0, 200.0, 900.0, 3600.0, 600.0))
    old = not_none(memory_runs_out(outlook, 180.0, 0.0, 200.0, 360_000.0, 3600.0, 600.0))
    assert not_none(growing.chance) > not_none(flat.chance) > 0.5
    assert not_none(old.chance) < 0.2 * not_none(flat.chance), "it would have happened before"
    assert growing.soon == growing.chance
    assert growing.due_s == pytest.approx(200.0)
    assert flat.soon == pytest.approx(not_none(flat.chance) / 6.0)
    steady = not_none(memory_runs_out(learned([100.0] * 40), 99.0, 0.1, 110.0, 900.0, 3600.0, 600.0))
    assert not_none(steady.soon) < 0.1, "such jobs never needed more"
    assert memory_runs_out(outlook, 300.0, 0.1, 200.0, 900.0, 3600.0, 600.0) is None, "nothing held it to its request"
    nothing_known = not_none(memory_runs_out(learned([]), 180.0, 0.1, 200.0, 900.0, 3600.0, 600.0))
    assert (nothing_known.chance, nothing_known.soon) == (None, None)


def test_growth_is_the_mean_of_the_last_minutes() -> None:
    growth = 0.0
    for minute in range(60):
        growth = grown(growth, 60.0 * minute, 60.0 * (minute + 1), 60.0)
    assert growth == pytest.approx(1.0, rel=0.01)
    for _ in range(60):
        growth = grown(growth, 3600.0, 3600.0, 60.0)
    assert growth < 0.01
    assert grown(growth, 1.0, 5.0, 0.0) == growth


def test_how_many_of_those_near_their_limit_run_out_is_learned_from_the_killed_ones() -> None:
    question = Question(user="a", application="p", requested_memory_bytes=3600.0)
    chances = []
    for share in (0.0, 0.3, 0.8):
        profile, rng = Profile("bytes", metric="memory"), np.random.default_rng(5)
        for i in range(600):
            value, is_killed = (600.0, False) if i % 2 else (3350.0, rng.random() < share)
            forecast = profile.forecast_job(question)
            at_start = profile.forecast_job(question, "start")
            seen = 3600.0 if is_killed else value
            profile.learn(question, seen, forecast, seen, lower_bound=is_killed, at_start=at_start)
        restored = make.profile_of(profile.state(), "memory")
        chances.append(restored.outlook(question).exceeds(3600.0, 3300.0))
    assert chances[0] < 0.1 < 0.2 < chances[1] < 0.65 < chances[2] < 0.95


def test_the_share_that_needs_the_whole_limit_is_of_those_near_it() -> None:
    near = Prospect({50.0: 0.4, 90.0: 0.2, 99.0: 0.1, 100.0: 0.1}, beyond=0.2)
    assert stated_near_limit(near, 100.0) == pytest.approx((0.1 + 0.2) / (0.2 + 0.1 + 0.1 + 0.2))
    assert stated_near_limit(Prospect({90.0: 0.5}, beyond=0.0), 100.0) == 0.0
    assert stated_near_limit(Prospect({50.0: 1.0}, beyond=0.0), 100.0) is None, "no job comes near it"
    assert stated_near_limit(Prospect({}, beyond=0.0), 100.0) is None


@pytest.mark.parametrize("shifts", [(), (0.3,) * 10, (-0.2,) * 10])
@pytest.mark.parametrize("values", [[], [50.0], np.random.default_rng(1).lognormal(4.0, 1.0, 300).tolist()])
def test_no_job_is_likely_to_run_out_of_memory_before_its_outlook_says(
    values: list[float], shifts: tuple[float, ...]
) -> None:
    outlook = replace(learned(values), shifts=shifts)
    for limit in np.geomspace(1.0, 1e4, 40).tolist():
        least, shares = memory_likely_from(outlook, limit), np.linspace(0.001, 1.0, 200).tolist()
        likely = [share for share in shares if outlook.exceeds(limit, share * limit) >= LIKELY]
        if outlook.places:
            assert least <= min(likely) * limit <= least + 0.01 * limit, "no earlier, and hardly later"
        else:
            assert least == pytest.approx(MEMORY_NEAR * limit)


def test_no_job_is_likely_to_reach_its_time_limit_before_its_outlook_says() -> None:
    late = learned([3000.0, 7200.0, 7200.0] * 20, "runtime")
    few, early = Outlook(chances=(None,) * 13), Outlook(chances=(0.1,) * 8 + (0.6,) * 5)
    for outlook, share in ((few, 0.0), (early, 0.8), (Outlook(), 0.0), (Outlook(chances=(0.0,) * 13), 1.0)):
        assert time_likely_from(outlook, 1000.0) == pytest.approx(1000.0 * share)
    for elapsed_s in np.linspace(0.0, 3600.0, 100).tolist():
        if (not_none(time_runs_out(late, elapsed_s, 3600.0, 1e9)).chance or 0.0) >= LIKELY:
            assert elapsed_s >= time_likely_from(late, 3600.0)
