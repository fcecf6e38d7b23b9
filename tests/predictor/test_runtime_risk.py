"""Run-time risk against closed forms, direct summation and random draws."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from tests.make import accuracy_of

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import (
    GRID,
    GroupAccuracy,
    RuntimeAccuracy,
    SimpleAccuracy,
    TimeSliceAccuracy,
    bin_of,
)
from jobsight_predictor.runtime.success import HALF_LIFE_H, MachineFailure, Recalibration, SuccessProbability

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


@given(ratios, st.floats(0.0, 1.2))
def test_distributions_are_monotone_within_0_and_1(values: list[float], run: float) -> None:
    for found in (accuracy_of(np.array(values)), accuracy_of(np.array(values)).after(run)):
        assert found.cdf[0] == 0.0
        assert found.cdf[-1] == 1.0
        assert (np.diff(found.cdf) >= -1e-12).all()


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50), st.integers(1, 100))
def test_distribution_counts_jobs(values: list[float], percent: int) -> None:
    found = accuracy_of(np.array(values))
    count = sum(value <= percent / 100 + 1e-10 for value in values)
    assert found.cdf[percent] == pytest.approx(count / len(values))
    assert all(value <= (bin_of(value) + 1) / 100 + 1e-10 for value in values)


def test_conditioning_is_bayes() -> None:
    rest = SMOOTH.after(0.4)
    for x in (0.3, 0.4, 0.55, 0.9):
        expected = max(0.0, (SMOOTH.within(x) - SMOOTH.within(0.4)) / (1.0 - SMOOTH.within(0.4)))
        assert rest.within(x) == pytest.approx(float(expected), abs=2e-3)
    assert SMOOTH.mean == pytest.approx(beta.mean(0.6, 0.9), abs=1e-3)


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


def test_success_is_the_product_of_its_factors() -> None:
    found = SuccessProbability(0.9, 0.5, 0.8)
    assert (found.pos, found.pof) == (pytest.approx(0.36), pytest.approx(0.64))


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
