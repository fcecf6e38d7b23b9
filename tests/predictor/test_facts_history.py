"""Numbers that are known of a job: where they tell what it needs they answer, and where not, nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from tests import make
from tests.make import not_none

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.facts import LEAST, FactsHistory
from jobsight_predictor.question import Question


def asked(size: float) -> Question:
    return Question("ada", "align", facts=(("input_bytes", size),))


def learned(need_of: object, jobs: int = 300) -> Profile:
    rng = np.random.default_rng(8)
    profile = Profile("bytes", metric="memory")
    for size in rng.lognormal(20.0, 1.0, jobs).tolist():
        question = asked(size)
        profile.learn(question, need_of(size, rng), profile.forecast_job(question))  # type: ignore[operator]
    return profile


def test_what_grows_with_the_size_of_the_input_is_reserved_by_it() -> None:
    profile = learned(lambda size, rng: 3.0 * size)
    small, large = (profile.answer(asked(size)) for size in (2e8, 2e9))
    assert small.bound_basis == large.bound_basis == "facts"
    assert 6e8 <= not_none(small.bound) < 3e9 < 6e9 * 0.8 <= not_none(large.bound)


def test_an_uninformative_size_changes_little() -> None:
    profile = learned(lambda size, rng: float(rng.choice([1e9, 2e9])))
    without = profile.answer(Question("ada", "align")).bound
    for size in (1e7, 1e9):
        bound = not_none(profile.answer(asked(size)).bound)
        assert 1e9 <= bound <= 1.5 * not_none(without)


def test_too_few_jobs_and_unknown_facts_tell_nothing() -> None:
    history = FactsHistory()
    for i in range(LEAST - 1):
        history.learn((("input_bytes", float(i)),), 5.0)
    assert history.prospect((("input_bytes", 3.0),)) is None
    history.learn((("input_bytes", 4.0),), 5.0)
    assert history.prospect((("samples", 3.0),)) is None
    found = not_none(history.prospect((("input_bytes", 3.0),)))
    assert sum(found.places.values()) + found.beyond == pytest.approx(1.0)


def test_its_state_is_exact() -> None:
    profile = learned(lambda size, rng: 3.0 * size, 40)
    restored = make.profile_of(profile.state(), "memory")
    assert restored.answer(asked(1e9)) == profile.answer(asked(1e9))
    assert restored.state() == profile.state()
