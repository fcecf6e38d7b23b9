"""Run-time risk against closed forms, direct summation and random draws."""

from __future__ import annotations

import json
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import (
    GRID,
    GroupAccuracy,
    RuntimeAccuracy,
    SimpleAccuracy,
    TimeSliceAccuracy,
    accuracy_of_ratios,
    bin_of,
)
from jobsight_predictor.runtime.finish_time import (
    executable,
    finish_of_running,
    finish_of_waiting,
    run_lags,
    start_time,
)
from jobsight_predictor.runtime.success import (
    HALF_LIFE_H,
    MachineFailure,
    Recalibration,
    SuccessProbability,
    ends_of_running,
    ends_of_waiting,
    executable_by_scenarios,
    in_empty_gap,
    scenario_order,
)

SMOOTH = RuntimeAccuracy(beta.cdf(GRID, 0.6, 0.9), 1000.0, "beta")
ratios = st.lists(st.floats(0.0, 3.0), max_size=50)


def test_published_vectors_of_machine_failure() -> None:
    machine = MachineFailure()
    assert machine.available(128) == pytest.approx(0.8996, abs=5e-5)
    assert machine.survives(128, 18.0) == pytest.approx(0.8531, abs=5e-5)
    assert machine.failures_per_h == pytest.approx(6.8943e-5, rel=1e-4)
    for limit, widest in ((0.05, 62), (0.1, 127), (0.2, 269)):
        assert 1.0 - machine.available(widest) < limit <= 1.0 - machine.available(widest + 1)


def test_survival_over_expected_run_times_is_the_integral() -> None:
    machine = MachineFailure(0.01, 0.1)
    x = (np.arange(1_000_000) + 0.5) / 1e6
    density = np.diff(np.interp(np.arange(1_000_001) / 1e6, GRID, SMOOTH.cdf))
    assert machine.survives_run(7, 12.0, SMOOTH) == pytest.approx(density @ np.exp(-0.01 * 7 * 12.0 * x), rel=1e-6)
    assert machine.survives_run(7, 12.0, SMOOTH) > machine.survives(7, 12.0)


@pytest.mark.parametrize("rates", [(-1.0, 1.0), (float("nan"), 1.0), (1.0, 0.0), (float("inf"), 1.0), (1.0, 1e999)])
def test_machine_rates_that_are_none_are_refused(rates: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="per hour: give"):
        MachineFailure(*rates)


@given(ratios, st.floats(0.0, 1.2))
def test_distributions_are_monotone_within_0_and_1(values: list[float], run: float) -> None:
    for found in (accuracy_of_ratios(np.array(values)), accuracy_of_ratios(np.array(values)).after(run)):
        assert found.cdf[0] == 0.0
        assert found.cdf[-1] == 1.0
        assert (np.diff(found.cdf) >= -1e-12).all()


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50), st.integers(1, 100))
def test_distribution_counts_jobs(values: list[float], percent: int) -> None:
    found = accuracy_of_ratios(np.array(values))
    count = sum(value <= percent / 100 + 1e-10 for value in values)
    assert found.cdf[percent] == pytest.approx(count / len(values))
    assert all(value <= (bin_of(value) + 1) / 100 + 1e-10 for value in values)


def test_conditioning_is_bayes() -> None:
    rest = SMOOTH.after(0.4)
    for x in (0.3, 0.4, 0.55, 0.9):
        expected = max(0.0, (SMOOTH.within(x) - SMOOTH.within(0.4)) / (1.0 - SMOOTH.within(0.4)))
        assert rest.within(x) == pytest.approx(float(expected), abs=2e-3)
    assert SMOOTH.mean == pytest.approx(beta.mean(0.6, 0.9), abs=1e-3)


@pytest.mark.parametrize("bad", [-0.1, float("nan")])
def test_ratios_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="run / requested time is"):
        accuracy_of_ratios(np.array([0.5, bad]))
    with pytest.raises(ValueError, match="run / requested time is"):
        GroupAccuracy().learn(Question("anna"), bad)


def test_classes_of_requested_time_and_too_few_jobs() -> None:
    history = TimeSliceAccuracy()
    for i in range(60):
        history.learn(Question(requested_time_s=1800.0), 0.105)
        if i < 29:
            history.learn(Question(requested_time_s=50_000.0), 0.905)
    short, long = Question(requested_time_s=3600.0), Question(requested_time_s=43_201.0)
    assert history.distribution(short).source == "0.25 to 1 h"
    assert history.distribution(short).within(0.11) == 1.0
    assert history.distribution(long).source == "site"  # 29 jobs
    history.learn(long, 0.905)
    assert history.distribution(long).source == "above 12 h"
    assert history.distribution(long).within(0.89) == 0.0
    assert set(history.distributions()) == {"site", "0.25 to 1 h", "above 12 h"}


def test_groups_fall_back_and_recent_jobs_weigh_more() -> None:
    history = GroupAccuracy(fade_jobs=10.0)
    site = SimpleAccuracy()
    for _ in range(300):
        for learner in (history, site):
            learner.learn(Question("anna", "lammps", requested_time_s=3600.0), 0.095)
            learner.learn(Question("bert", "vasp", requested_time_s=3600.0), 0.995)
    anna = history.distribution(Question("anna", "lammps", requested_time_s=3600.0))
    assert anna.within(0.1) > 0.9
    assert "user" in anna.source
    stranger = history.distribution(Question("carl", requested_time_s=3600.0))
    assert stranger.within(0.1) == pytest.approx(0.5)
    assert stranger.cdf == pytest.approx(site.distribution(Question()).cdf)
    for _ in range(30):  # three half lives
        history.learn(Question("anna", "lammps", requested_time_s=3600.0), 0.995)
    assert history.distribution(Question("anna", "lammps", requested_time_s=3600.0)).within(0.5) < 0.3


def chain(step_h: float) -> tuple[float, float]:
    """P_executable of the third job of a chain: exact form, and its start before 2 h."""
    running = finish_of_running(-1.0, 4.0, 3.0, 0.0, SMOOTH, step_h)
    second = finish_of_waiting(start_time(0.35, 3.0, [running], step_h), run_lags(5.0, SMOOTH, step_h), 8.0, step_h)
    third = start_time(0.73, 8.0, [second], step_h)
    return executable(third, 11.0, 6.0, SMOOTH), float(third.mass[third.times_h < 2.0].sum())


def test_a_chain_agrees_with_random_draws() -> None:
    rng = np.random.default_rng(5)
    draws = 400_000
    run = 4.0 * np.interp(rng.uniform(float(SMOOTH.within(0.25)), 1.0, draws), SMOOTH.cdf, GRID)
    ends = np.minimum(-1.0 + run, 3.0)
    ends = np.minimum(np.maximum(0.35, ends) + 5.0 * np.interp(rng.random(draws), SMOOTH.cdf, GRID), 8.0)
    starts = np.maximum(0.73, ends)
    success = starts + 6.0 * np.interp(rng.random(draws), SMOOTH.cdf, GRID) <= 11.0
    error = 4.0 * np.sqrt(0.25 / draws)
    assert chain(0.01)[0] == pytest.approx(success.mean(), abs=error)
    assert chain(0.1)[0] == pytest.approx(success.mean(), abs=0.004)
    assert chain(0.01)[1] == pytest.approx((starts < 2.0).mean(), abs=0.01)

    first = ends_of_running(scenario_order(1), -1.0, 4.0, 3.0, 0.0, SMOOTH)
    second = ends_of_waiting(np.maximum(0.35, first), 5.0 * SMOOTH.quantiles(scenario_order(2)), 8.0)
    fast = executable_by_scenarios(np.maximum(0.73, second), 11.0, 6.0, SMOOTH)
    assert fast == pytest.approx(success.mean(), abs=0.02)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.2, 8.0), st.floats(0.0, 0.9)), min_size=1, max_size=4), st.floats(0.0, 9.0))
def test_starts_are_the_product_of_predecessors(running: list[tuple[float, float]], release: float) -> None:
    """Against F(t) by direct multiplication; predecessors that all end by 8 h."""
    planned = 10.0
    finishes = [finish_of_running(-part * hours, hours, hours, 0.0, SMOOTH) for hours, part in running]
    start = start_time(release, planned, finishes)
    assert start.mass.sum() == pytest.approx(1.0)
    assert (start.mass >= 0.0).all()
    assert release - 1e-9 <= start.times_h[0]
    assert start.times_h[-1] <= planned
    for t in np.arange(0.5, 9.5, 0.5):
        expected = 0.0
        if t >= release:
            expected = 1.0
            for hours, part in running:
                left = (t + part * hours) / hours
                expected *= 1.0 if t >= hours else float(SMOOTH.after(part).within(left))
        assert start.mass[start.times_h <= t + 1e-9].sum() == pytest.approx(
            expected, abs=1e-6 + 0.15 * (t < release + 0.1)
        )


def test_an_empty_machine_and_full_time_is_certain() -> None:
    sure = in_empty_gap(MachineFailure(0.0, 1.0), 128, 18.0, 18.0, SMOOTH)
    assert sure == SuccessProbability(1.0, 1.0, 1.0)
    assert (sure.pos, sure.pof) == (1.0, 0.0)
    some = in_empty_gap(MachineFailure(), 128, 18.0, 9.0, SMOOTH)
    assert some.executable == pytest.approx(beta.cdf(0.5, 0.6, 0.9))
    assert some.pos == pytest.approx(
        some.executable * (1.0 - 12.0 * log(0.95) / 744.0) ** -128 * exp(log(0.95) * 128 * 18 / 744)
    )
    assert some.opportunity(10.0) - some.risk(5.0) == pytest.approx(10.0 * some.pos - 5.0 * (1.0 - some.pos))
    with pytest.raises(ValueError, match="give positive numbers"):
        in_empty_gap(MachineFailure(), 0, 18.0, 9.0, SMOOTH)


@pytest.mark.parametrize("factor", [0.3, 1.0, 5.0])
def test_recalibration_finds_the_rate(factor: float) -> None:
    """Odds of failing are ``factor`` times the predicted ones."""
    rng = np.random.default_rng(8)
    recalibration = Recalibration()
    for predicted in rng.uniform(0.0, 0.2, 1500):
        odds = factor * predicted / (1.0 - predicted)
        recalibration.learn(float(predicted), bool(rng.random() < odds / (1.0 + odds)), 5.0)
    correct = recalibration.as_of(5.0)
    expected = factor * 0.1 / 0.9 / (1.0 + factor * 0.1 / 0.9)
    assert correct(0.1) == pytest.approx(expected, rel=0.35)
    assert (correct(0.0), correct(1.0)) == (0.0, 1.0)
    grid = [correct(p) for p in np.linspace(0.0, 1.0, 50)]
    assert all(0.0 <= low <= high <= 1.0 for low, high in pairwise(grid))
    restored = Recalibration.from_state(json.loads(json.dumps(recalibration.state())))
    assert restored.as_of(900.0)(0.07) == recalibration.as_of(900.0)(0.07)


def test_recalibration_begins_with_no_change_and_forgets() -> None:
    recalibration = Recalibration()
    assert recalibration.factor(0.0) == 1.0
    recalibration.learn(0.05, True, 100.0)
    # One failure against an expectation of a twentieth and a prior of 1.5.
    assert recalibration.factor(100.0) == pytest.approx(2.5 / 1.55)
    assert recalibration.factor(100.0 + HALF_LIFE_H) == pytest.approx(2.0 / 1.525)
    assert recalibration.factor(100.0 + 12 * HALF_LIFE_H) == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ValueError, match="from 0 to 1"):
        recalibration.learn(1.5, True, 0.0)
