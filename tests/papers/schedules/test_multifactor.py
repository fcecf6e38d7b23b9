"""Multifactor priority: fair share against an integral, the order of jobs by hand, and second by second."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from tests.scheduler.by_rows import Row, starts_of

from jobsight_papers.schedules.chosen import choose_policy
from jobsight_papers.schedules.multifactor import FairShare, PriorityWeights, priority_weights

DAY_S = 86_400.0


def test_usage_is_the_integral_of_faded_processors() -> None:
    """``n * 2^(-(now - t) / half-life)`` over the times at which a user's jobs ran."""
    half_life = 1000.0
    jobs = [("a", 0.0, 700.0, 4), ("a", 300.0, 2500.0, 2), ("b", 100.0, 5000.0, 3), ("c", 400.0, 401.0, 64)]
    share = FairShare(half_life)
    changes = sorted(
        [(start, user, count) for user, start, _, count in jobs] + [(end, user, -count) for user, _, end, count in jobs]
    )
    now = 3000.0
    for when, user, count in changes:
        if when <= now:
            share.change(when, user, count)
    expected = {"a": 0.0, "b": 0.0, "c": 0.0}
    for user, start, end, count in jobs:
        found, _ = quad(lambda t, n=count: n * 2.0 ** ((t - now) / half_life), start, min(end, now))
        expected[user] += found
    np.testing.assert_allclose(share.usage(now), [expected[user] for user in ("a", "b", "c")], rtol=1e-9)
    total = sum(expected.values())
    np.testing.assert_allclose(share.factors(now), [2.0 ** (-3 * used / total) for used in expected.values()])
    # A thousand half-lives later nothing is left to divide.
    for _, user, count in ((0, "a", 0), (0, "b", -3)):
        share.change(5000.0, user, count)
    assert share.factors(5000.0 + 2000 * half_life).tolist() == [1.0, 1.0, 1.0]


def starts(jobs: list[Row], users: str, weights: PriorityWeights) -> list[float]:
    return starts_of(choose_policy("multifactor", weights=weights).make, 8, jobs, users)


def test_who_used_less_goes_first_and_size_and_age_count_as_weighted() -> None:
    jobs: list[Row] = [(0, 100, 100, 8), (1, 50, 50, 6), (2, 50, 50, 7), (3, 50, 50, 8)]
    fair = PriorityWeights(age=0.0, size=0.0, fair_share=1.0)
    # At 100 only user a has used anything: b's jobs by number, then a's.
    assert starts(jobs, "aabb", fair) == [0, 200, 100, 150]
    # At 150 b has used 350 and a 800 processor seconds, hardly faded.
    assert starts(jobs, "aabb", PriorityWeights(0.0, 1.0, 0.0)) == [0, 200, 150, 100]
    assert starts(jobs, "aabb", PriorityWeights(0.0, -1.0, 0.0)) == [0, 100, 150, 200]
    assert starts(jobs, "aabb", PriorityWeights(1.0, 0.0, 0.0)) == [0, 100, 150, 200]
    # A second counts a tenth at most: jobs 2 to 4 are all as old as can be at 100, and go by number.
    assert starts(jobs, "aabb", PriorityWeights(1.0, 1e-6, 0.0, longest_age_days=1.0 / DAY_S)) == [0, 200, 150, 100]
    # Usage that halves each second is forgotten at 150: b, who ran last, has used more, and a is next.
    assert starts(jobs, "aabb", PriorityWeights(0.0, 0.0, 1.0, half_life_days=1.0 / DAY_S)) == [0, 150, 100, 200]


def test_weights_by_name() -> None:
    assert priority_weights({"fair-share": 5.0, "half-life-days": 14.0}) == PriorityWeights(
        fair_share=5.0, half_life_days=14.0
    )
    for given, message in (
        ({"nice": 1.0}, "unknown weight 'nice'; choose from age, size, fair-share"),
        ({"age": float("nan")}, "age of nan: give a number"),
        ({"size": 1e30}, r"size of 1e\+30: give a number of at most 1e12"),
        ({"half-life-days": 0.0}, "half-life-days of 0.0: give a number of days above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            priority_weights(given)
