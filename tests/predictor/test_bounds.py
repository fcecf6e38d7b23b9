from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from jobsight_predictor.profile.calibration import FailurePrice
from jobsight_predictor.profile.groups import Group
from jobsight_predictor.profile.prospect import Prospect, Witness, prospect
from jobsight_predictor.profile.reserve import FEW, Bound, Bounds, Case, RequestedLimits


class Priced:
    """Bounds, and the price of their own failures."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.bounds = Bounds(*args, **kwargs)
        self.price = FailurePrice(self.bounds.coverage)

    def reserve(self, found: Prospect, case: Case) -> Bound:
        return self.bounds.reserve(found, case, self.price.mean_jobs())

    def score(self, reserved: float | None, value: float, seconds: float | None = None) -> None:
        self.bounds.learn(value, seconds)
        if reserved is not None:
            self.price.score(failed=value > reserved)

    def with_coverage(self, coverage: float) -> Priced:
        """The same, restored through JSON with another coverage."""
        restored = Priced(coverage)
        restored.bounds.mean_job.load(json.loads(json.dumps(self.bounds.mean_job.state())))
        restored.price.load(json.loads(json.dumps(self.price.state())))
        return restored


def reserve(bounds: Priced, groups: list[Group], case: Case = Case()) -> Bound:  # noqa: B008
    levels = [[Witness(group)] for group in groups if group.mode.n]
    return bounds.reserve(prospect(levels), case)


def group_of(values: list[float]) -> Group:
    """Jobs one after the other."""
    group = Group()
    for i, value in enumerate(values):
        group.learn(value, i, i + 1)
    return group


def grown_up(bounds: Priced) -> Priced:
    """The same after so many successes that not every job gets its own quantile."""
    coverage, log_price, reserved, covered = bounds.price.state()
    bounds.price.load([coverage, log_price, reserved + 5000, covered + 5000])
    return bounds


def observed(coverage: float, values: list[float], seconds: float = 60.0) -> tuple[list[bool], float, Priced]:
    """Learn a series value by value; return (whether each job fitted, mean reserved / mean used, the bounds)."""
    bounds, group = grown_up(Priced(coverage)), Group()
    held, fitted = [], []
    for i, value in enumerate(values):
        reserved = reserve(bounds, [group], Case(seconds)).value if i else None
        bounds.score(reserved, value, seconds)
        if reserved is not None:
            held.append(reserved)
            fitted.append(value <= reserved)
        group.learn(value, i, i + 1)
    return fitted, float(np.mean(held) / np.mean(values)), bounds


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.9, 0.95])
@pytest.mark.parametrize("kind", ["normal", "heavy", "two levels"])
def test_observed_coverage_becomes_the_chosen_one(coverage: float, kind: str) -> None:
    """A single series is the hard case: nothing but the price can adapt, and it does so over thousands of jobs.

    More may fit, where failing wastes more than it saves; fewer may not.
    """
    rng = np.random.default_rng(7)
    n = 16_000
    values = {
        "normal": rng.normal(1000, 150, n).clip(1),
        "heavy": rng.lognormal(6, 1, n),
        "two levels": rng.choice([100.0, 1000.0], n) * rng.uniform(0.95, 1.05, n),
    }[kind]
    fitted, _, _ = observed(coverage, values.tolist())
    assert coverage - 0.02 <= np.mean(fitted[-4000:]) <= (1.0 if kind == "two levels" else 0.985)


def test_failures_raise_the_price_and_successes_lower_it() -> None:
    group = group_of(np.random.default_rng(5).lognormal(5, 1, 300).tolist())

    def reserved_after(failures: int, successes: int) -> float:
        bounds = grown_up(Priced(0.9))
        for _ in range(failures):
            bounds.score(1.0, 150.0)
        for _ in range(successes):
            bounds.score(1000.0, 150.0)
        return reserve(bounds, [group]).value

    assert reserved_after(1000, 0) > reserved_after(100, 900) >= reserved_after(0, 10_000)


def test_where_nothing_is_known_the_request_is_reserved() -> None:
    bound = Priced().reserve(Prospect({}, 1.0), Case(request=7.0, is_limit=True))
    assert bound == Bound(7.0, 0.0, "request")


def test_the_narrow_group_outweighs_the_wide_one_as_it_grows() -> None:
    wide = group_of([1000.0] * 100)
    bounds, narrow = Priced(), Group()
    for _ in range(300):
        bounds.score(150.0, 100.0, 1.0)
    reserved = []
    for i in range(60):
        narrow.learn(100.0, i, i + 1)
        reserved.append(reserve(bounds, [narrow, wide]).value)
    assert 100.0 <= reserved[-1] < 200.0
    assert reserved == sorted(reserved, reverse=True)


def test_few_jobs_are_reserved_above_the_largest_of_them() -> None:
    """With m jobs the next one is the largest of all with a probability of a half in m + a half (Jeffreys)."""
    for n in (1, 4, 9):
        largest = 100.0 + n
        case = Case(largest=largest, request=1e4, is_limit=True)
        bound = reserve(Priced(), [group_of([*map(float, range(100, 100 + n)), largest])], case)
        assert bound.value > largest
        assert bound.basis == "largest seen"
    case = Case(request=1e4, is_limit=True)
    margins = [reserve(Priced(), [group_of([100.0] * n)], case).value for n in (1, 2, 5, 10, 40)]
    assert margins == sorted(margins, reverse=True)
    assert margins[0] >= 200.0
    assert margins[-1] < 115.0


def test_strangers_alone_never_take_a_job_below_its_request() -> None:
    strangers = [group_of([5.0] * 500)]
    for bounds in (Priced(), grown_up(Priced())):
        stranger = reserve(bounds, strangers, Case(request=400.0, own=0))
        assert (stranger.value, stranger.basis) == (400.0, "request")
        known = reserve(bounds, strangers, Case(request=400.0, own=30))
        assert known.value < 10.0


def test_no_bound_exceeds_a_request_that_is_a_limit() -> None:
    group = group_of(np.random.default_rng(2).lognormal(3, 1, 50).tolist())
    free = reserve(Priced(), [group], Case(request=20.0))
    assert free.value > 20.0
    found = Priced().reserve(prospect([[Witness(group)]]).cut(20.0), Case(request=20.0, is_limit=True))
    assert found == Bound(20.0, 0.0, "request")


def test_where_far_too_few_fail_bounds_come_down_sooner() -> None:
    """A hundred jobs that all fit, of which five might have failed, have to show."""

    def after(good: int) -> float:
        price = FailurePrice(0.95)
        first = price.state()[1]
        price.load([0.95, first, 5000, round(0.95 * 5000)])  # just as many as may
        for _ in range(good):
            price.score(failed=False)
        return price.state()[1] - first

    assert after(100) / 100 == pytest.approx(after(50) / 50, rel=0.05)
    assert (after(300) - after(150)) / 150 == pytest.approx(5.0 * after(50) / 50, rel=0.05)


def test_a_long_run_wastes_for_long() -> None:
    """Of run times the candidate near the long ones pays sooner than of values that say nothing of the length."""
    group = group_of([10.0, 10.0, 10.0, 100.0] * 40)
    memory, time = grown_up(Priced(0.5, of_time=False)), grown_up(Priced(0.5, of_time=True))
    for bounds in (memory, time):
        for _ in range(100):
            bounds.score(1000.0, 10.0, 1.0)
    assert reserve(time, [group], Case(1.0)).value >= 100.0 > 20.0 > reserve(memory, [group], Case(1e9)).value


@pytest.mark.parametrize("coverage", [0.0, 1.5])
def test_impossible_aims_are_refused(coverage: float) -> None:
    with pytest.raises(ValueError, match=f"coverage is {coverage!r}"):
        Priced(coverage)


def test_another_coverage_is_answered_at_once() -> None:
    values = np.random.default_rng(9).lognormal(5, 1, 2000).tolist()
    _, _, bounds = observed(0.95, values)
    group = group_of(values)
    reserved = [
        reserve(bounds.with_coverage(coverage), [group], Case(60.0)).value for coverage in (0.8, 0.95, 0.99, 0.999)
    ]
    assert reserved == sorted(reserved)
    assert reserved[0] < reserved[3]


def test_until_a_few_jobs_of_an_application_have_ended_its_limit_pays_for_caution() -> None:
    """Bursts of a new application fail together; where nothing caps what caution costs, there is none."""
    group = group_of(np.random.default_rng(4).lognormal(3, 1, 400).tolist())
    found = prospect([[Witness(group)]]).cut(1e4)
    bounds = grown_up(Priced(0.9))
    cautious, usual, unlimited = (
        bounds.reserve(found, Case(request=1e4, is_limit=is_limit, ended=ended)).value
        for is_limit, ended in ((True, FEW - 1), (True, FEW), (False, 0))
    )
    assert cautious > usual == unlimited


def test_requests_are_followed_by_what_they_wasted_lately() -> None:
    """As long as they were good they are not, once they have been twice the bounds."""
    limits = RequestedLimits("memory", Bounds(0.95))
    for request, bound, jobs, followed in ((2.0, 4.0, 2000, True), (4.0, 2.0, 500, False), (2.0, 4.0, 1200, True)):
        for _ in range(jobs):
            limits.learn(request, bound, 1.0, 1.0)
        assert limits.are_better is followed
