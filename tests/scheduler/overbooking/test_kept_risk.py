"""Risk that is updated while the plan changes equals risk computed from scratch."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.scheduler.overbooking.test_overbooking_plan import accuracy_of

from jobsight_predictor.runtime.success import MachineFailure
from jobsight_scheduler.overbooking.accept import AcceptanceRule, decide
from jobsight_scheduler.overbooking.plan import Booking, BookingPlan, JobOffer
from jobsight_scheduler.overbooking.risk import STALE_H, FastRisk, KeptRisk

RULE = AcceptanceRule(rule="first-fit", pmax=0.4, guards=True)
ACCURACIES = [accuracy_of(np.random.default_rng(seed).beta(0.6, 1.2, 300)) for seed in range(5)]


def offer_of(job: int, now_h: float, rng: random.Random) -> JobOffer:
    requested = rng.choice([0.5, 1.0, 3.0])
    release = now_h + rng.choice([0.0, 1.0, 4.0])
    deadline = release + requested * rng.choice([0.7, 2.0, 5.0])
    return JobOffer(job, rng.randint(1, 6), requested, release, deadline, rng.choice(ACCURACIES), requested, requested)


@pytest.mark.parametrize("seed", range(8))
def test_it_equals_that_of_a_plan_read_from_scratch(seed: int) -> None:
    rng, machine = random.Random(seed), MachineFailure()
    plan, now = BookingPlan(8), 0.0
    kept = KeptRisk(plan, now)
    accepted = 0
    for job in range(80):
        now += rng.choice([0.0, STALE_H / 3, 0.3])
        for number, booking in list(plan.bookings.items()):
            if booking.started_h is None and booking.from_h <= now:
                kept.changed(booking.from_h)
                plan.start(number, booking.from_h)
            elif booking.started_h is not None and rng.random() < 0.2:
                kept.changed(plan.remove(number).from_h)
        kept.as_of(now)
        fresh = FastRisk(plan, kept.now_h)
        for number, booking in plan.bookings.items():
            if booking.started_h is None:
                assert kept.executable_booked(number) == fresh.executable_booked(number)
        offer = offer_of(job, now, rng)
        decision = decide(plan, offer, now, RULE, machine, risk=kept)
        again = decide(plan, offer, now, RULE, machine, risk=fresh)
        assert (decision.reason, decision.raw_pof, decision.candidates) == (
            again.reason,
            again.raw_pof,
            again.candidates,
        )
        if decision.place is not None:
            accepted += 1
            plan.load([Booking(offer, decision.place, decision.raw_pof)])
            kept.changed(decision.place.start_h)
    assert accepted > 15


def test_it_moves_on_after_a_minute() -> None:
    plan = BookingPlan(1)
    kept = KeptRisk(plan, 10.0)
    kept.as_of(10.0 + STALE_H / 2)
    assert kept.now_h == 10.0
    kept.as_of(10.0 + STALE_H * 1.01)
    assert kept.now_h == 10.0 + STALE_H * 1.01
    kept.as_of(3.0)
    assert kept.now_h == 3.0, "a clock that was set back"
