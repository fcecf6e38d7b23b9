"""The plan and its decisions against brute force, random draws and figures worked out by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import accuracy_of, not_none

from jobsight_papers.overbooking.exact_risk import ExactRisk
from jobsight_predictor.runtime.accuracy import GRID, RuntimeAccuracy
from jobsight_predictor.runtime.success import MachineFailure, Recalibration
from jobsight_scheduler.overbooking.accept import AcceptanceRule, OfferDecision, decide, decide_corrected
from jobsight_scheduler.overbooking.plan import Booking, BookingPlace, BookingPlan, JobOffer
from jobsight_scheduler.overbooking.risk import FastRisk

HALF = accuracy_of(np.array([0.5, 1.0]), "half of the jobs run for half of their time")
SAFE = MachineFailure(0.0, 1.0)
CONSERVATIVE = AcceptanceRule("conservative")


def offer(job: int, nodes: int, hours: float, release: float = 0.0, deadline: float = 1000.0) -> JobOffer:
    return JobOffer(job, nodes, hours, release, deadline, HALF, hours, hours)


def booked(plan: BookingPlan, asked: JobOffer, rule: AcceptanceRule, now: float = 0.0) -> OfferDecision:
    decision = decide(plan, asked, now, rule, SAFE)
    if decision.place is not None and decision.success is not None:
        plan.load([Booking(asked, decision.place, decision.success.pof)])
    return decision


def place(decision: OfferDecision) -> tuple[float, float, list[int]]:
    assert decision.place is not None
    return decision.place.start_h, decision.place.end_h, decision.place.processors.tolist()


def test_a_tiny_plan_worked_out_by_hand() -> None:
    """Two processors: A on both 0-4, B on 0 from 4 to 10; C (10 h, deadline 14) has only the gap on 1 from 4 on."""
    plan = BookingPlan(2)
    assert place(booked(plan, offer(1, 2, 4.0), CONSERVATIVE)) == (0.0, 4.0, [0, 1])
    assert place(booked(plan, offer(2, 1, 6.0), CONSERVATIVE)) == (4.0, 10.0, [0])
    c = offer(3, 1, 10.0, deadline=13.0)
    assert booked(plan, c, CONSERVATIVE).reason == "no room before the deadline"
    # C starts when A ends. A ends at 2 or 4, with 1/2 each. In the window to 13 it may run 9 h or 10 h of its 10 (it is
    # killed at 13): it fails only if A takes 4 hours and C more than nine tenths of its time.
    overbooked = booked(plan, c, AcceptanceRule(pmax=0.3))
    assert place(overbooked) == (4.0, 13.0, [1])
    # On the grid, the jobs that run for all of their time end within its last per cent.
    assert not_none(overbooked.success).pof == pytest.approx(0.25, abs=0.02)
    assert decide(BookingPlan(2), c, 0.0, AcceptanceRule(pmax=0.3), SAFE).success is not None
    assert plan.place_of(3).predecessors == (1,)


@settings(deadline=None, max_examples=60)
@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 4), st.floats(0.1, 9.0), st.floats(0.0, 20.0), st.booleans()), min_size=1, max_size=90
    )
)
def test_a_plan_that_grew_job_by_job_is_as_one_made_at_once(jobs: list[tuple[int, float, float, bool]]) -> None:
    grown = BookingPlan(5)
    for number, (nodes, hours, release, overbooks) in enumerate(jobs):
        rule = AcceptanceRule(pmax=0.6) if overbooks else CONSERVATIVE
        booked(grown, offer(number, nodes, hours, release, release + 3.0 * hours + 1.0), rule)
        if number % 7 == 6 and grown.bookings:
            grown.remove(next(iter(grown.bookings)))
    made = BookingPlan(5)
    made.load(grown.bookings.values())
    starts = made.starts(0.0, 100.0)
    for nodes in (1, 3):
        found, expected = ([repr(each) for each in plan.places(starts, nodes, 4.0, 99.0)] for plan in (grown, made))
        assert found == expected
    for job in grown.bookings:
        one, other = grown.place_of(job), made.place_of(job)
        assert (sorted(one.predecessors), sorted(one.successors)) == (
            sorted(other.predecessors), sorted(other.successors)
        )  # fmt: skip


def test_limits_by_machine_risk_alone() -> None:
    machine = MachineFailure()
    short = replace(offer(1, 1, 0.001))
    for pmax, widest in ((0.05, 62), (0.1, 127), (0.2, 269)):
        rule = AcceptanceRule(pmax=pmax)
        plan = BookingPlan(400)
        assert decide(plan, replace(short, nodes=widest), 0.0, rule, machine).place is not None
        assert decide(plan, replace(short, nodes=widest + 1), 0.0, rule, machine).reason == "machine risk"
    assert decide(plan, replace(short, nodes=401), 0.0, CONSERVATIVE, machine).reason == "wider than the machine"


def test_strict_takes_the_lowest_and_full_first_those_free_for_long() -> None:
    plan = BookingPlan(3)
    plan.load([Booking(offer(1, 1, 5.0), BookingPlace(3.0, 8.0, np.array([0]), (), ()), 0.0)])
    asked = offer(2, 2, 10.0)
    strict = next(plan.places(plan.starts(0.0, 100.0), 2, 10.0, asked.deadline_h))
    assert (strict.processors.tolist(), strict.end_h, strict.successors) == ([0, 1], 3.0, (1,))
    full = next(plan.places(plan.starts(0.0, 100.0), 2, 10.0, asked.deadline_h, "full-first"))
    assert (full.processors.tolist(), full.end_h, full.successors) == ([1, 2], 10.0, ())
    assert place(decide(plan, asked, 0.0, CONSERVATIVE, SAFE))[2] == [1, 2]


def test_guard_protects_jobs_further_on() -> None:
    """1 on processor 0; 2 after it on 0 and 1, not overbooked; 3, overbooked, after 2 on 1. 4 would delay 2, so 3."""
    plan = BookingPlan(2)
    for number, nodes, hours, start, end, processors in (
        (2, 2, 10.0, 20.0, 30.0, [0, 1]),
        (3, 1, 10.0, 30.0, 34.0, [1]),
    ):
        asked = offer(number, nodes, hours)
        plan.load([Booking(asked, BookingPlace(start, end, np.array(sorted(processors)), (), ()), 0.0)])
    risk = ExactRisk(plan, 0.0)
    # 2 starts at once and ends by 10, so 3 has more than its 10 hours.
    assert risk.executable_booked(3) == pytest.approx(1.0)
    late = offer(4, 1, 20.0)
    after = dict(risk.after(late, BookingPlace(0.0, 20.0, np.array([0]), (), (2,))))
    # 4 ends at 10 or 20, 2 takes 5 or 10 hours more, 3 has from then until 34. With 4 at 20 and 2 at 30, 3 has 4 hours
    # and fails; with 2 at 25 it has 9, enough for half of the runs.
    assert after == {3: pytest.approx(1.0 - 0.5 * (0.5 * 1.0 + 0.5 * 0.5), abs=0.05)}
    fast = dict(FastRisk(plan, 0.0).after(late, BookingPlace(0.0, 20.0, np.array([0]), (), (2,))))
    assert fast[3] == pytest.approx(after[3], abs=0.06)
    guarded = AcceptanceRule(pmax=0.2, guards=True)
    assert place(decide(plan, late, 0.0, guarded, SAFE))[0] >= 30.0
    assert place(decide(plan, late, 0.0, replace(guarded, guards=False), SAFE))[0] == 0.0


@st.composite
def offers(draw: st.DrawFn) -> list[JobOffer]:
    """Offers for four processors, with times that coincide often."""
    found = []
    for job in range(draw(st.integers(1, 12))):
        hours = draw(st.sampled_from([0.5, 1.0, 2.0, 3.7]))
        release = draw(st.sampled_from([0.0, 1.0, 2.5, 4.0]))
        found.append(
            offer(job, draw(st.integers(1, 4)), hours, release, release + hours * draw(st.sampled_from([1.0, 3.0])))
        )
    return found


@settings(max_examples=150, deadline=None)
@given(offers(), st.sampled_from(["conservative", "first-fit", "highest-pos"]), st.floats(0.01, 0.9))
def test_bookings_never_overlap_and_are_the_first_place(asked: list[JobOffer], rule: str, pmax: float) -> None:
    plan = BookingPlan(4)
    for one in asked:
        before = dict(plan.bookings)
        found = booked(plan, one, AcceptanceRule(rule, pmax, choice="full-first"))  # type: ignore[arg-type]
        if rule == "conservative":
            expected = brute_force_place(before, one)
            assert (None if found.place is None else found.place.start_h) == expected
        if found.place is not None and found.success is not None:
            start, end, processors = place(found)
            assert one.release_h <= start < end <= min(one.deadline_h, start + one.requested_h)
            assert len(processors) == one.nodes
            assert 0.0 <= found.success.pos <= 1.0
            assert rule == "conservative" or found.success.pof < pmax
            for other in before.values():
                if set(processors) & set(other.place.processors.tolist()):
                    assert end <= other.from_h or other.until_h <= start


def brute_force_place(bookings: dict[int, Booking], asked: JobOffer) -> float | None:
    """The first start, release or booked end, at which enough processors are free for all of the requested time."""
    ends = sorted({asked.release_h, *(b.until_h for b in bookings.values() if b.until_h > asked.release_h)})
    for start in ends:
        end = start + asked.requested_h
        taken = {
            processor
            for b in bookings.values()
            if b.from_h < end and start < b.until_h
            for processor in b.place.processors.tolist()
        }
        if end <= asked.deadline_h and 4 - len(taken) >= asked.nodes:
            return start
    return None


def random_plan(seed: int, jobs: int, nodes: int) -> BookingPlan:
    """A plan with ``jobs`` overbooked jobs."""
    rng = np.random.default_rng(seed)
    plan = BookingPlan(nodes)
    job = 0
    while len(plan.bookings) < jobs and job < 20 * jobs:
        values = rng.beta(0.4, 0.8, 200)
        hours, release = float(rng.uniform(0.5, 12.0)), float(rng.uniform(0.0, 30.0))
        asked = JobOffer(
            job,
            int(rng.integers(1, nodes // 2)),
            hours,
            release,
            release + 5 * hours,
            accuracy_of(values),
            hours,
            hours,
        )
        booked(plan, asked, AcceptanceRule(pmax=0.3))
        job += 1
    return plan


def test_risk_of_a_plan_agrees_with_random_draws() -> None:
    """P_executable of every booking, by drawing run times and letting the plan run, in both forms."""
    plan = random_plan(3, 25, 8)
    order = sorted(plan.bookings.values(), key=lambda booking: booking.from_h)
    rng = np.random.default_rng(11)
    draws = 20_000
    ends: dict[int, np.ndarray] = {}
    exact, fast = ExactRisk(plan, 0.0), FastRisk(plan, 0.0)
    errors, fast_errors = [], []
    for booking in order:
        asked, where = booking.offer, plan.place_of(booking.offer.job)
        start = np.full(draws, asked.release_h)
        for other in where.predecessors:
            start = np.maximum(start, ends[other])
        assert (start <= booking.from_h + 1e-9).all()  # never later than planned
        end = start + asked.requested_h * np.interp(rng.random(draws), asked.accuracy.cdf, GRID)
        success = end <= booking.end_h + 1e-12
        ends[asked.job] = np.minimum(end, booking.end_h)
        errors.append(exact.executable_booked(asked.job) - success.mean())
        fast_errors.append(fast.executable_booked(asked.job) - success.mean())
    assert sum(booking.is_overbooked for booking in order) > 5
    assert np.abs(errors).max() < 0.06  # predecessors with one in common are not independent
    assert np.abs(np.mean(errors)) < 0.01
    assert np.abs(fast_errors).max() < 0.08


def test_impossible_plans() -> None:
    with pytest.raises(ValueError, match="give 1 to"):
        BookingPlan(10**9)


def test_a_long_chain_needs_no_deep_stack() -> None:
    plan = BookingPlan(1)
    sure = RuntimeAccuracy(GRID.copy(), 1.0, "uniform")
    count = sys.getrecursionlimit() + 200
    for job in range(count):
        asked = JobOffer(job, 1, 1.0, 0.0, 1e5, sure, 1.0, 1.0)
        plan.load([Booking(asked, BookingPlace(float(job), job + 1.0, np.array([0]), (), ()), 0.0)])
    assert FastRisk(plan, 0.0).executable_booked(count - 1) == pytest.approx(1.0)


def test_a_small_share_of_what_only_the_correction_refuses_is_accepted() -> None:
    """After many failures that were not predicted, one in 20 of the jobs that predictions alone would take."""
    plan = BookingPlan(1)
    mostly_short = accuracy_of(np.array([0.5] * 19 + [1.0]), "one in twenty needs all of its time")
    asked = JobOffer(0, 1, 2.0, 0.0, 1.9, mostly_short, 2.0, 2.0)
    rule = AcceptanceRule("highest-pos", pmax=0.1, limits_machine=False)
    test = partial(decide, plan, asked, 0.0, rule, SAFE)
    recalibration = Recalibration()
    assert decide_corrected(test, recalibration, 0.0)[1] is None  # nothing was learned: as predicted
    for _ in range(20):
        recalibration.learn(0.05, True, 0.0)
    raw = test(None)
    taken = [decide_corrected(test, recalibration, 0.0) for _ in range(60)]
    assert [explored for _, explored in taken] == ([False] * 19 + [True]) * 3
    assert {decision.place is None for decision, explored in taken if not explored} == {True}
    accepted = taken[19][0]
    assert accepted.place == raw.place
    assert not_none(accepted.success).executable < not_none(raw.success).executable  # promised as corrected
