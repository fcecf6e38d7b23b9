from __future__ import annotations

import json

import numpy as np
import pytest

from jobsight_predictor.profile.bound import Bound, Case
from jobsight_predictor.profile.group import Group
from jobsight_predictor.profile.prospect import Prospect, Witness, prospect
from jobsight_predictor.profile.reserve import BURST, HEADROOM, Bounds


def reserve(bounds: Bounds, groups: list[Group], case: Case = Case()) -> Bound:  # noqa: B008
    levels = [[Witness(group)] for group in groups if group.mode.n]
    return bounds.reserve(prospect(levels), case)


def group_of(values: list[float]) -> Group:
    """Jobs one after the other."""
    group = Group()
    for i, value in enumerate(values):
        group.learn(value, i, i + 1)
    return group


def grown_up(bounds: Bounds) -> Bounds:
    """The same, with so many good years behind it that not every job gets its own quantile."""
    state, years = bounds.state(), 5000
    return Bounds.from_state(
        bounds.coverage, state | {"reserved": state["reserved"] + years, "covered": state["covered"] + years}
    )


def observed(coverage: float, values: list[float], seconds: float = 60.0) -> tuple[list[bool], float, Bounds]:
    """(whether each job fitted, mean reserved / mean used, the bounds) of a series learned value by value."""
    bounds, group = grown_up(Bounds(coverage)), Group()
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
        bounds = grown_up(Bounds(0.9))
        for _ in range(failures):
            bounds.score(1.0, 150.0)
        for _ in range(successes):
            bounds.score(1000.0, 150.0)
        return reserve(bounds, [group]).value

    assert reserved_after(1000, 0) > reserved_after(100, 900) >= reserved_after(0, 10_000)
    assert reserved_after(1000, 0) > reserved_after(0, 10_000)


def test_more_coverage_costs_more() -> None:
    values = np.random.default_rng(3).lognormal(6, 1, 4000).tolist()
    costs = [observed(coverage, values)[1] for coverage in (0.9, 0.95, 0.99)]
    assert costs == sorted(costs)
    assert costs[0] < costs[2]


def test_where_nothing_is_known_the_request_is_reserved() -> None:
    bound = Bounds().reserve(Prospect({}, 1.0), Case(request=7.0, is_limit=True))
    assert bound == Bound(7.0, 0.0, "request", 7.0)


def test_the_narrow_group_outweighs_the_wide_one_as_it_grows() -> None:
    wide = group_of([1000.0] * 100)
    bounds, narrow = Bounds(), Group()
    for _ in range(300):
        bounds.score(150.0, 100.0, 1.0)
    reserved = []
    for i in range(60):
        narrow.learn(100.0, i, i + 1)
        reserved.append(reserve(bounds, [narrow, wide]).value)
    assert reserved[0] >= 1000.0  # one job of its own against a hundred others
    assert 100.0 <= reserved[-1] < 200.0
    assert reserved == sorted(reserved, reverse=True)


def test_bound_is_at_least_what_follows_a_failure() -> None:
    group = group_of([10.0] * 100)
    for least in (5.0, 10.0, 35.0, 1e6):
        assert reserve(Bounds(), [group], Case(least=least)).value >= least
        assert reserve(grown_up(Bounds()), [group], Case(least=least)).value >= least
    # What failed is left by a real step, though the next place is only just above it; a limit is not exceeded.
    group = group_of([*[10.0] * 100, 10.1])
    assert reserve(grown_up(Bounds()), [group], Case(least=12.5)).value == 12.5
    limited = reserve(grown_up(Bounds()), [group], Case(least=11.0, request=11.0, is_limit=True))
    assert (limited.value, limited.exceed_probability) == (11.0, 0.0)


def test_few_jobs_are_reserved_above_the_largest_of_them() -> None:
    """With m jobs the next one is the largest of m + 1 with probability 1 / (m + 1): nineteen are needed for 5 %."""
    for n in (1, 4, 9):
        largest = 100.0 + n
        bound = reserve(Bounds(), [group_of([*map(float, range(100, 100 + n)), largest])], Case(largest=largest))
        assert bound.value > largest
        assert bound.basis == "largest seen"
    margins = [reserve(Bounds(), [group_of([100.0] * n)]).value for n in (1, 2, 5, 10, 40)]
    assert margins == sorted(margins, reverse=True)
    assert margins[0] >= 200.0
    assert margins[-1] < 115.0


def test_strangers_alone_never_take_a_job_below_its_request() -> None:
    strangers = [group_of([5.0] * 500)]
    for bounds in (Bounds(), grown_up(Bounds())):
        stranger = reserve(bounds, strangers, Case(request=400.0, own=0))
        assert (stranger.value, stranger.basis) == (400.0, "request")
        known = reserve(bounds, strangers, Case(request=400.0, own=30))
        assert known.value < 10.0


def test_no_bound_exceeds_a_request_that_is_a_limit() -> None:
    group = group_of(np.random.default_rng(2).lognormal(3, 1, 50).tolist())
    free = reserve(Bounds(), [group], Case(request=20.0))
    assert free.value > 20.0
    found = Bounds().reserve(prospect([[Witness(group)]], 20.0), Case(request=20.0, is_limit=True))
    assert found == Bound(20.0, 0.0, "request", 20.0)


def test_per_job_shrinks_what_may_fail_of_a_user_and_a_class_that_failed() -> None:
    group = group_of(np.random.default_rng(4).lognormal(3, 1, 400).tolist())
    bounds = Bounds(0.95, "per-job")
    fine = reserve(bounds, [group], Case(forecast=20.0)).value
    other = reserve(bounds, [group], Case(forecast=2000.0)).value
    owing = reserve(bounds, [group], Case(owed=2.0, forecast=20.0)).value
    assert owing > fine
    for _ in range(40):
        bounds.score(1.0, 20.0, 1.0, forecast=20.0)
    assert reserve(bounds, [group], Case(forecast=20.0)).value > fine
    assert reserve(bounds, [group], Case(forecast=2000.0)).value == other == fine


def test_a_site_is_young_until_it_can_bear_a_burst_and_again_when_it_has_failed_too_often() -> None:
    """`HEADROOM` failures more may bring the share held so far to 92 % but not below."""
    bounds = Bounds(0.95)
    n = 0
    while bounds.young:
        bounds.score(2.0, 1.0, 1.0)
        n += 1
    assert 0.92 * n == pytest.approx(n - HEADROOM, abs=1.0)
    for _ in range(300):
        bounds.score(2.0, 1.0, 1.0)
    assert not bounds.young
    for _ in range(30):
        bounds.score(1.0, 2.0, 1.0)
    assert bounds.young


def test_where_far_too_few_fail_bounds_come_down_sooner() -> None:
    """A thousand jobs that all fit, of which fifty might have failed, have to show."""

    def after(good: int) -> float:
        bounds = grown_up(Bounds(0.95))
        state = bounds.state()
        bounds = Bounds.from_state(0.95, state | {"covered": round(0.95 * state["reserved"])})  # just as many as may
        for _ in range(good):
            bounds.score(1000.0, 20.0, 1.0)
        return bounds.state()["price"]["log_price"] - state["price"]["log_price"]

    assert after(400) / 400 == pytest.approx(after(200) / 200, rel=0.05)
    assert (after(1000) - after(600)) / 400 == pytest.approx(5.0 * after(200) / 200, rel=0.05)


def test_a_young_site_that_failed_too_often_becomes_more_careful() -> None:
    group = group_of(np.random.default_rng(4).lognormal(3, 1, 400).tolist())
    bounds = Bounds(0.95)
    fine = reserve(bounds, [group]).value
    for _ in range(30):
        bounds.score(1.0, 20.0, 1.0)
    assert reserve(bounds, [group]).value > fine


def test_after_a_burst_of_failures_a_user_is_reserved_no_more_than_a_repetition_would_hold() -> None:
    group = group_of(np.random.default_rng(4).lognormal(3, 1, 400).tolist())
    bounds = grown_up(Bounds(0.95))
    for _ in range(400):  # failures cost little here
        bounds.score(100.0, 20.0, 1.0)
    usual = reserve(bounds, [group], Case(owed=BURST)).value
    careful = reserve(bounds, [group], Case(owed=BURST + 1.0)).value
    assert usual < careful <= 2.0 * usual
    assert reserve(bounds, [group], Case(owed=1000.0)).value <= 2.0 * usual


def test_where_requests_waste_less_the_answer_is_the_request() -> None:
    """Users who know: they ask for a tenth more than they need, which no distribution of their past can tell."""
    group = group_of(np.random.default_rng(4).lognormal(3, 1, 400).tolist())
    rng = np.random.default_rng(5)

    def told(over: float) -> Bound:
        bounds = grown_up(Bounds(0.95))
        for _ in range(500):
            value = float(rng.lognormal(3, 1))
            case = Case(request=over * value)
            bound = reserve(bounds, [group], case)
            bounds.score(bound.value, value, 1.0, learned=bound.learned, request=case.request)
        return reserve(bounds, [group], Case(request=500.0))

    knowing, padding = told(1.1), told(30.0)
    assert (knowing.value, knowing.basis) == (500.0, "request")
    assert knowing.learned < 500.0
    assert padding.value == padding.learned < 500.0


def test_a_long_run_wastes_for_long() -> None:
    """Of run times the candidate near the long ones pays sooner than of values that say nothing of the length."""
    group = group_of([10.0, 10.0, 10.0, 100.0] * 40)
    memory, time = (grown_up(Bounds(0.5, of_time=False)), Bounds(0.5, of_time=True))
    time = Bounds.from_state(0.5, grown_up(time).state(), of_time=True)
    for bounds in (memory, time):
        for _ in range(100):
            bounds.score(1000.0, 10.0, 1.0)
    assert reserve(time, [group], Case(1.0)).value >= 100.0 > 20.0 > reserve(memory, [group], Case(1e9)).value


def test_state_goes_through_json_exactly() -> None:
    _, _, bounds = observed(0.9, np.random.default_rng(1).lognormal(4, 1, 200).tolist())
    restored = Bounds.from_state(0.9, json.loads(json.dumps(bounds.state())))
    assert restored.state() == bounds.state()


@pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5])
def test_impossible_coverage_is_refused(coverage: float) -> None:
    with pytest.raises(ValueError, match=f"coverage is {coverage}"):
        Bounds(coverage)


def test_unknown_objective_is_refused() -> None:
    with pytest.raises(ValueError, match="objective is 'thrift'"):
        Bounds(objective="thrift")  # type: ignore[arg-type]


def test_another_coverage_is_answered_at_once() -> None:
    values = np.random.default_rng(9).lognormal(5, 1, 2000).tolist()
    _, _, bounds = observed(0.95, values)
    group = group_of(values)
    reserved = [
        reserve(Bounds.from_state(coverage, bounds.state()), [group], Case(60.0)).value
        for coverage in (0.8, 0.95, 0.99, 0.999)
    ]
    assert reserved == sorted(reserved)
    assert reserved[0] < reserved[3]


def test_a_user_with_thousands_of_failures_still_has_a_bound() -> None:
    group = group_of([10.0] * 100)
    few = reserve(Bounds(0.95, "per-job"), [group], Case(owed=100.0)).value
    assert reserve(Bounds(0.95, "per-job"), [group], Case(owed=5000.0)).value == few > 10.0
