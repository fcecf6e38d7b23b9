"""The recommended request against the similar jobs that the sentence names, on generated evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.make import not_none

from jobsight_server.forecasts.decision import Decision, Need, Resource, Use, count_enough, decide, refuted, together

STEP = 1.0

amounts = st.floats(50.0, 5000.0)
resources = st.sampled_from(["memory", "runtime"])


@st.composite
def evidence(
    draw: st.DrawFn, least: int = 1, most: int = 120, bursts_of: Sequence[int] = (1, 4), failures: bool = True
) -> list[Use]:
    jobs = draw(st.integers(least, most))
    of_burst = draw(st.sampled_from(bursts_of))
    middle, spread = draw(amounts), draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    chance = draw(st.randoms(use_true_random=False))
    found = []
    for number in range(jobs):
        amount = middle * (1.0 + spread * chance.random())
        found.append(Use(amount, number // of_burst, failures and chance.random() < 0.1, number))
    return found


@st.composite
def needs(draw: st.DrawFn) -> Need:
    """A possibly wrong forecast, independent of the jobs."""
    amount = draw(amounts)
    shares = (0.5, 0.75, 0.9, 0.95, 0.98)
    factors = [1.0, *sorted(draw(st.lists(st.floats(1.0, 3.0), min_size=4, max_size=4)))]
    return Need(amount, [(amount * factor, share) for factor, share in zip(factors, shares, strict=True)])


requests = st.none() | amounts


def share_within(uses: Sequence[Use], amount: float) -> float:
    """The mean over bursts of the share of each that had enough."""
    of_bursts: dict[int, list[bool]] = {}
    for use in uses:
        of_bursts.setdefault(use.burst, []).append(use.amount <= amount)
    return fmean(fmean(enough) for enough in of_bursts.values())


def few(uses: Sequence[Use]) -> bool:
    return len(uses) < 5 or len({use.burst for use in uses}) < 2


@given(resources, requests, evidence(most=4) | evidence(5, bursts_of=[1000]), needs())
def test_few_jobs_or_one_burst_lower_nothing(
    resource: Resource, requested: float | None, uses: list[Use], need: Need
) -> None:
    assert few(uses)
    found = decide(resource, requested, uses, need, STEP)
    assert found.enough is None
    if requested is not None and found.amount is not None:
        assert found.amount >= requested


@given(resources, requests, evidence(), needs())
def test_the_stated_share_is_true_of_the_last_hundred(
    resource: Resource, requested: float | None, uses: list[Use], need: Need
) -> None:
    found = decide(resource, requested, uses, need, STEP)
    if found.amount is None or found.enough is None:
        return
    latest = uses[:100]
    assert sum(use.amount <= found.amount for use in latest) >= 2 * len(latest) / 3
    bursts = len({use.burst for use in latest})
    within = math.floor(bursts * share_within(latest, found.amount) + 1e-9)
    assert binom.cdf(within, bursts, found.enough) >= 0.049
    assert binom.cdf(within, bursts, 0.95) >= 0.049, "for nearly all of them"
    for amount, enough in found.steps:
        assert amount in (requested, found.amount)
        assert enough.within <= sum(use.amount <= amount for use in latest)


@given(resources, requests, evidence(), needs())
def test_nothing_below_a_known_failure(
    resource: Resource, requested: float | None, uses: list[Use], need: Need
) -> None:
    failed = max((use.amount for use in uses if use.failed), default=0.0)
    assume(failed > 0.0)
    found = decide(resource, requested, uses, need, STEP)
    given_now = found.amount or requested or math.inf
    asked = requested or 0.0
    assert given_now >= (min(1.25 * failed, asked) if failed < asked else 1.25 * failed) - 1e-6


@given(resources, amounts, evidence(10), needs())
def test_more_than_requested_where_similar_jobs_used_more(
    resource: Resource, requested: float, uses: list[Use], need: Need
) -> None:
    latest = uses[:100]
    assume(sum(use.amount > requested for use in latest) > 0.05 * len(latest))
    found = decide(resource, requested, uses, need, STEP)
    assert not_none(found.amount) > requested


@given(resources, evidence(5, failures=False), needs(), st.floats(2.0, 50.0))
def test_enough_evidence_is_used(resource: Resource, uses: list[Use], need: Need, times: float) -> None:
    assume(not few(uses))
    largest = max(use.amount for use in uses)
    found = decide(resource, times * largest, uses, need, STEP)
    if found.amount is None:
        assert found.kept == "forecast higher"
        assert need.share(largest) < 0.5
    else:
        assert found.amount < times * largest


@given(amounts, evidence(5), needs())
def test_a_time_limit_is_lowered_where_it_is_twice_the_longest_or_the_forecast_is_sure(
    requested: float, uses: list[Use], need: Need
) -> None:
    found = decide("runtime", requested, uses, need, STEP)
    if found.amount is None or found.amount >= requested:
        return
    assert not few(uses)
    is_wide = not any(use.failed for use in uses) and max(use.amount for use in uses) <= 0.5 * requested
    assert is_wide or need.share(found.amount) >= 0.95


@given(requests, evidence(5), needs())
def test_run_times_stay_near_the_longest(requested: float | None, uses: list[Use], need: Need) -> None:
    assume(not few(uses))
    longest = max((use.amount for use in uses if not use.failed), default=0.0)
    failed = [use.amount for use in uses if use.failed]
    assume(longest > 0.0 and max(failed, default=0.0) <= longest)
    found = decide("runtime", requested, uses, need, STEP)
    if found.amount is not None:
        assert found.amount <= 1.25 * longest + STEP
    if requested is not None and max(failed, default=0.0) < 0.9 * requested:
        near = sum(use.amount >= 0.9 * requested for use in uses[:100])
        assert near > 0.05 * len(uses[:100]) or found.amount is None or found.amount <= requested


@given(resources, requests, evidence(), needs(), st.floats(10.0, 1000.0))
def test_an_amount_is_whole_and_within_the_nodes(
    resource: Resource, requested: float | None, uses: list[Use], need: Need, most: float
) -> None:
    found = decide(resource, requested, uses, need, 60.0, most=60.0 * math.floor(most / 60.0 + 1.0))
    assert (found.amount is None) == (found.kept is not None)
    if found.amount is not None:
        assert found.amount % 60.0 == 0.0
        assert found.amount <= 60.0 * math.floor(most / 60.0 + 1.0)


def test_no_similar_job_changes_nothing() -> None:
    assert decide("memory", 1000.0, [], Need(2.0, [(2.0, 0.98)]), STEP) == Decision(None, None, 0, "not measured")


def test_a_failure_is_followed_by_a_quarter_more_and_another_by_twice_as_much() -> None:
    calm = [Use(300.0, number) for number in range(10)]
    need = Need(320.0, [(320.0, 0.97)])
    once = decide("memory", 2000.0, [Use(400.0, 20, failed=True), *calm], need, STEP)
    again = decide("memory", 2000.0, [Use(500.0, 21, True), Use(400.0, 20, True), *calm], need, STEP)
    assert (once.amount, again.amount) == (500.0, 1000.0)
    beyond = decide("memory", 500.0, [Use(500.0, 21, True), *calm], need, STEP)
    assert beyond.amount == 625.0


@given(evidence(5, failures=False), evidence(5, failures=False), needs(), needs())
def test_jobs_are_counted_for_which_both_were_enough(
    memory: list[Use], runtime: list[Use], need: Need, need_s: Need
) -> None:
    uses: dict[Resource, Sequence[Use]] = {"memory": memory, "runtime": runtime}
    decisions: dict[Resource, Decision] = {
        "memory": decide("memory", None, memory, need, STEP), "runtime": decide("runtime", None, runtime, need_s, STEP)
    }  # fmt: skip
    enough = together(decisions, uses)
    if enough is None:
        assert any(decision.enough is None for decision in decisions.values())
        return
    both = list(zip(memory[:100], runtime[:100], strict=False))
    limits = [decision.amount or 0.0 for decision in decisions.values()]
    within = sum(use.amount <= limits[0] and use_s.amount <= limits[1] for use, use_s in both)
    assert enough == (within, len(both))


def test_what_a_job_would_have_used_that_ran_out_of_less_is_unknown() -> None:
    uses = [Use(300.0, 0, True, 0), Use(200.0, 1, False, 1), Use(500.0, 2, False, 2)]
    assert [count_enough([(uses, amount)]) for amount in (250.0, 400.0, 600.0)] == [(1, 3), (1, 2), (2, 2)]


@pytest.mark.parametrize("jobs", [1, 5, 20, 100])
def test_refuted_agrees_with_scipy(jobs: int) -> None:
    for within in range(jobs + 1):
        for stated in (0.5, 0.8, 0.95, 0.99):
            chance = binom.cdf(within, jobs, stated)
            if abs(chance - 0.05) > 1e-9:
                assert refuted(within, jobs, stated) == (chance < 0.05 and within < jobs * stated), (within, stated)
