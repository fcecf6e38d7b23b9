from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.calibration import SCARCE, STATED, TENTHS, Correction
from jobsight_predictor.question import MOMENTS, Question


def test_what_is_stated_wrongly_comes_true_after_correction() -> None:
    rng = np.random.default_rng(8)
    correction = Correction(TENTHS)
    stated, corrected, came = rng.uniform(size=60_000), np.zeros(60_000), np.zeros(60_000)
    for i, each in enumerate(stated.tolist()):
        true = bool(rng.uniform() < each**2)
        corrected[i], came[i] = correction.correct(each), true
        correction.score(each, true, 1.0)
    bins = np.digitize(stated, TENTHS)
    for k in range(len(TENTHS) + 1):
        inside = (bins == k) & (np.arange(60_000) > 6000)
        assert came[inside].mean() == pytest.approx(corrected[inside].mean(), abs=0.02)
    assert np.mean((corrected - came) ** 2) < np.mean((stated - came) ** 2) - 0.02


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0.001, 1))), st.floats(0, 1), st.sampled_from((0, 1))
)
def test_it_is_a_probability_shifted_by_what_came_of_its_bin(
    learned: list[tuple[float, bool, float]], stated: float, scarce: int
) -> None:
    ends = (TENTHS, SCARCE)[scarce]
    correction = Correction(ends)
    for each in learned:
        correction.score(*each)
    lower = [end for end in ends if end < stated]
    own = [(w, c - s) for s, c, w in learned if [end for end in ends if end < s] == lower]
    shift = sum(w * excess for w, excess in own) / (sum(w for w, _ in own) + STATED)
    assert correction.correct(stated) == pytest.approx(np.clip(stated + shift, 0.0, 1.0), abs=1e-12)
    restored = Correction(ends)
    restored.load(json.loads(json.dumps(correction.state())))
    assert restored.state() == correction.state()


@pytest.mark.parametrize("size", [1, 4, 30])
def test_the_jobs_of_a_burst_count_less_and_less(size: int) -> None:
    profile = Profile("bytes")
    question = Question(user="a", application="p")
    profile.learn(question, 1.0)  # before it, nothing is stated
    for _ in range(60 // size):
        pending = [profile.forecast_job(question) for _ in range(size)]
        for forecast in pending:
            profile.learn(question, 1.0, forecast)
    site: Any = profile.state()['["site"]'].state
    bursts = 60 / size * sum(k**-0.5 for k in range(1, size + 1))
    exceeding = [site[f"calibration at {moment}"][1] for moment in MOMENTS]
    for jobs, _ in (*exceeding, site["hit_probability"][2]):
        assert sum(jobs) == pytest.approx(bursts)


def test_a_killed_job_teaches_that_it_needed_more() -> None:
    question = Question(user="a", application="p")
    chances = []
    for killed in (False, True):
        profile = Profile("bytes")
        for _ in range(30):
            profile.learn(question, 100.0)
        for _ in range(40):
            forecast = profile.forecast_job(Question(user="b", application="q"))
            assert forecast.bound is not None
            if killed:
                profile.learn(Question(user="b", application="q"), forecast.bound, forecast, lower_bound=True)
        chance = not_none(profile.answer(Question(user="c", application="r")).exceed_probability)
        chances.append(chance)
    assert chances[1] > chances[0] + 0.1


@given(st.lists(st.tuples(st.sampled_from((0.005, 0.02, 0.06, 0.2, 0.5)), st.booleans()), max_size=5))
def test_a_larger_amount_is_never_enough_for_fewer(learned: list[tuple[float, bool]]) -> None:
    profile, question = Profile("bytes"), Question(user="a", application="p")
    for value in range(1, 21):
        profile.learn(question, float(value))
    for stated, came in learned:
        profile.calibrations["submission"].exceeding.score(stated, came, 200.0)
    amounts, shares = zip(*profile.answer(question).need_steps, strict=True)
    assert len(amounts) > 5
    assert (list(amounts), list(shares)) == (sorted(amounts), sorted(shares))
