"""Running jobs: conditioned on what they used so far, the outlook is what counting the jobs beyond that gives."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests import make
from tests.make import not_none

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import AtStart
from jobsight_predictor.profile.running import Outlook, grown, memory_runs_out, time_runs_out
from jobsight_predictor.question import Question


def learned(values: list[float], metric: str = "memory") -> Outlook:
    question, profile = Question(user="a", application="p"), Profile("bytes", metric=metric)
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
        assert low <= found.chance <= high
        assert (found.soon, found.due_s) == (found.chance, 700.0)
    later = not_none(time_runs_out(late, 2000.0, 3600.0, 900.0))
    assert (later.soon, later.due_s) == (0.0, 1600.0)
    assert time_runs_out(late, 5000.0, 3600.0, 900.0) is None, "nothing stopped it at its limit"
    reached = not_none(time_runs_out(late, 3600.0, 3600.0, 900.0))
    assert reached.chance == 1.0


def test_growth_says_when_and_the_history_whether() -> None:
    outlook = learned([100.0, 190.0, 400.0, 400.0] * 10)
    growing = not_none(memory_runs_out(outlook, 180.0, 0.1, 200.0, 900.0, 3600.0, 600.0))
    flat = not_none(memory_runs_out(outlook, 180.0, 0.0, 200.0, 900.0, 3600.0, 600.0))
    old = not_none(memory_runs_out(outlook, 180.0, 0.0, 200.0, 360_000.0, 3600.0, 600.0))
    assert growing.chance > flat.chance > 0.5
    assert old.chance < 0.2 * flat.chance, "it would have happened before"
    assert (growing.soon, growing.due_s) == (growing.chance, pytest.approx(200.0))
    assert flat.soon == pytest.approx(flat.chance / 6.0)
    steady = not_none(memory_runs_out(learned([100.0] * 40), 99.0, 0.1, 110.0, 900.0, 3600.0, 600.0))
    assert steady.soon < 0.1, "such jobs never needed more"
    assert memory_runs_out(outlook, 300.0, 0.1, 200.0, 900.0, 3600.0, 600.0) is None, "nothing held it to its request"


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
    question = Question(user="a", application="p", requested_time_s=3600.0)
    chances = []
    for share in (0.0, 0.3, 0.8):
        profile, rng = Profile("s", metric="runtime"), np.random.default_rng(5)
        for i in range(600):
            value, is_killed = (600.0, False) if i % 2 else (3350.0, rng.random() < share)
            forecast = profile.forecast_job(question)
            at_start = AtStart.of(profile.forecast_job(question, "start"))
            seen = 3600.0 if is_killed else value
            profile.learn(question, seen, forecast, seen, lower_bound=is_killed, at_start=at_start)
        restored = make.profile_of(profile.state(), "runtime")
        chances.append(restored.outlook(question).exceeds(3600.0, 3300.0))
    assert chances[0] < 0.1 < 0.2 < chances[1] < 0.65 < chances[2] < 0.95
