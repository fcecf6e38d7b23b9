"""Running jobs as evidence for others: what they vote, how much that counts, and that nothing is left at their end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jobsight_predictor.evaluation.jobs import Jobs, in_time
from jobsight_predictor.evaluation.replay import replay_both
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.underway import MEASURED_LAST
from jobsight_predictor.question import Question

SOLVER = Question("ann", "solver", "batch", 4, None, 3600.0)
ALONE = Question("ann")


def learned(rng: np.random.Generator, jobs: int = 60, trust: float | None = None) -> Profile:
    """Jobs of ann, each of whose needs is new; before each ends, one like it runs that has used ``trust`` of it."""
    profile = Profile("B", metric="memory")
    for i in range(jobs):
        value = float(rng.uniform(1e9, 9e9))
        if trust is not None:
            profile.see(SOLVER, i, trust * value)
        forecast = profile.forecast_job(SOLVER)
        if trust is not None:
            profile.end(SOLVER, i)
        profile.learn(SOLVER, value, forecast, 100.0, at=1e9 + i)
    return profile


def test_what_running_jobs_use_counts_as_much_as_it_has_been_worth() -> None:
    trusted, misled = learned(np.random.default_rng(1), trust=1.0), learned(np.random.default_rng(1), trust=0.1)
    for profile in (trusted, misled):
        profile.see(SOLVER, 1000, 5e8)
    answer = trusted.answer(SOLVER)
    assert answer.value == 5e8
    assert (answer.forecaster, answer.level) == (
        "running-last",
        "user + application + queue + processors + requested_time_s",
    )
    assert (answer.n, answer.last_values) == (1, (5e8,))
    other = misled.answer(SOLVER)
    assert other.value is not None
    assert other.value > 1e9
    error = trusted.mean_error("ann")
    assert error is not None
    assert error.best_candidate == "running-last by most specific group"


def test_the_end_of_a_running_job_leaves_nothing_of_it() -> None:
    profile = learned(np.random.default_rng(2), trust=1.0)
    before = profile.answer(SOLVER), profile.state()
    for job, value in ((7, 3e8), (8, 4e8), (7, 5e8)):
        profile.see(SOLVER, job, value)
    assert profile.answer(SOLVER).value == 5e8
    profile.end(SOLVER, 7)
    assert profile.answer(SOLVER).value == 4e8
    profile.end(SOLVER, 8)
    profile.end(SOLVER, 8)
    assert (profile.answer(SOLVER), profile.state()) == before


def test_only_the_jobs_measured_last_are_kept_and_others_of_the_user_count_less_specifically() -> None:
    profile = learned(np.random.default_rng(3), trust=1.0)
    for job in range(MEASURED_LAST + 5):
        profile.see(SOLVER, job, 1e8 + job)
    assert profile.answer(SOLVER).n == MEASURED_LAST
    for job in range(5, MEASURED_LAST + 5):
        profile.end(SOLVER, job)
    assert profile.answer(SOLVER).value != 1e8 + 4
    other = replace(SOLVER, application="mesh")
    assert profile.answer(other).forecaster != "running-last"
    profile.see(replace(SOLVER, requested_time_s=60.0), 99, 2e8)
    by_fewer = profile.answer(SOLVER)
    assert (by_fewer.value, by_fewer.level) == (2e8, "user + application + processors")


def test_a_question_about_the_user_alone_goes_by_ended_jobs() -> None:
    profile = learned(np.random.default_rng(4), trust=1.0)
    before = profile.answer(ALONE)
    profile.see(SOLVER, 5, 1e8)
    profile.see(ALONE, 6, 1e8)
    assert profile.answer(ALONE) == before


def test_the_state_goes_through_json_part_by_part() -> None:
    profile = learned(np.random.default_rng(5), trust=1.0)
    parts: dict[str, Any] = dict(profile.state())
    profile.see(SOLVER, 5, 1e8)
    profile.see(SOLVER, 6, 3e8)
    profile.end(SOLVER, 5)
    changed = profile.changed_state()
    assert len(changed) == 4
    parts |= changed
    needed = set(profile.state_keys(SOLVER))
    assert set(changed) <= needed
    sent = {key: (json.loads(json.dumps(part.state)), part.until) for key, part in parts.items() if key in needed}
    restored = Profile("B", metric="memory")
    restored.load(sent)
    assert restored.answer(SOLVER) == profile.answer(SOLVER)
    restored.end(SOLVER, 6)
    profile.end(SOLVER, 6)
    assert restored.answer(SOLVER) == profile.answer(SOLVER)


def test_what_was_seen_long_ago_goes_with_the_rest() -> None:
    profile = learned(np.random.default_rng(6), trust=1.0)
    profile.see(SOLVER, 5, 1e8)
    assert profile.answer(SOLVER).value == 1e8
    for i in range(20):  # five months later; its end was never learned
        profile.learn(SOLVER, 5e9 + i, None, 100.0, at=1e9 + 150 * 86400.0 + i)
    assert profile.answer(SOLVER).forecaster != "running-last"


def test_run_times_have_no_such_evidence() -> None:
    profile = Profile("s", metric="runtime")
    for i in range(20):
        profile.learn(SOLVER, 100.0 + i, None, 100.0)
    before = profile.answer(SOLVER)
    profile.see(SOLVER, 5, 50.0)
    assert profile.answer(SOLVER) == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_what_is_no_measurement_is_refused(value: float) -> None:
    profile = learned(np.random.default_rng(7))
    before = profile.state()
    with pytest.raises(ValueError, match=r"measurement|finite|negative"):
        profile.see(SOLVER, 1, value)
    assert profile.state() == before


def bursts(sizes: int, rng: np.random.Generator) -> Jobs:
    """Bursts of ten jobs, submitted together, that need alike and start one after the other, 400 s apart, of 2,000 s
    each: none has ended when the next four start, one when the sixth does."""
    values = np.repeat(rng.uniform(1e9, 9e9, sizes), 10)
    submitted = np.repeat(np.arange(sizes) * 20_000.0, 10)
    started = submitted + np.tile(np.arange(10) * 400.0 + 1.0, sizes)
    seconds = np.full(len(values), 2000.0)
    none = np.full(len(values), np.nan)
    return Jobs("bursts", "memory", [SOLVER] * len(values), submitted, started + seconds, values, seconds, none)


def test_jobs_of_a_burst_learn_from_those_that_run() -> None:
    jobs = bursts(60, np.random.default_rng(8))

    def near(seen_after_s: float | None) -> float:
        _, again = replay_both(jobs, seen_after_s=seen_after_s)
        return float((np.abs(again.forecasts - jobs.values) <= 0.01 * jobs.values)[100:].mean())

    # Five of ten start when one has ended; nine of ten when one has run for five minutes.
    assert near(None) == pytest.approx(0.5, abs=0.05)
    assert near(300.0) == pytest.approx(0.9, abs=0.05)


def test_a_job_is_seen_between_its_start_and_its_end_if_it_runs_for_long_enough() -> None:
    jobs = bursts(2, np.random.default_rng(9))
    events = list(in_time(jobs, "start", 300.0))
    for i in range(len(jobs)):
        assert [event for event, job in events if job == i] == ["submit", "start", "seen", "finish"]
    assert not [event for event, _ in in_time(jobs, "start", 2000.0) if event == "seen"]
    assert sorted(in_time(jobs, "start")) == sorted(event for event in events if event[0] != "seen")
