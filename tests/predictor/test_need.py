"""The need of a job beside its bound: what such a job would get if its request did not limit it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.make import not_none

from jobsight_predictor.profile import Profile
from jobsight_predictor.question import Question

GIB = 2.0**30


def _site(used: list[float], request: float) -> Profile:
    """Return a profile of a user's jobs that requested this, beside enough others that make requests a limit."""
    profile = Profile("B", metric="memory")
    draw = np.random.default_rng(1)
    for number in range(200):
        other = Question(f"other{number % 7}", "fit", processors=1, requested_memory_bytes=8 * GIB)
        profile.learn(other, float(draw.uniform(1.0, 4.0)) * GIB)
    for value in used:
        profile.learn(Question("ann", "solver", processors=1, requested_memory_bytes=request), value)
    return profile


def test_request_below_the_need_limits_the_bound_and_says_so() -> None:
    profile = _site(list(np.linspace(11.0, 13.0, 20) * GIB), 16 * GIB)
    assert profile.are_limits
    answer = profile.answer(Question("ann", "solver", processors=1, requested_memory_bytes=GIB))
    assert answer.bound == GIB
    assert answer.limited_by_request
    assert not_none(answer.need) > 11 * GIB
    assert not_none(answer.exceed_probability) > 0.8


@pytest.mark.parametrize("request_gib", [None, 16.0, 64.0])
def test_need_within_the_request_limits_nothing(request_gib: float | None) -> None:
    profile = _site(list(np.linspace(11.0, 13.0, 20) * GIB), 16 * GIB)
    request = None if request_gib is None else request_gib * GIB
    answer = profile.answer(Question("ann", "solver", processors=1, requested_memory_bytes=request))
    assert answer.need is not None
    assert answer.bound is not None
    assert not answer.limited_by_request
    assert answer.need > 11 * GIB
    if request_gib is None:
        assert answer.need == answer.bound
