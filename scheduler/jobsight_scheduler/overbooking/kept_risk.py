"""The fast form for a plan that changes job by job: what a change does not touch is kept from offer to offer."""

from __future__ import annotations

import numpy as np

from jobsight_predictor.forecasters import Floats
from jobsight_predictor.runtime.scenarios import ends_of_running, ends_of_waiting, scenario_order

from .booking import JobOffer
from .plan import BookingPlan
from .risk import FastRisk

STALE_H = 1.0 / 60.0
"""Hours after which the ends of jobs are computed again; a sixth of the step of the published grid."""


class KeptRisk(FastRisk):
    """``FastRisk`` that remembers run times, predecessors and ends of the jobs in its plan.

    Whoever changes the plan calls ``changed``; ``as_of`` moves the time on.
    """

    def __init__(self, plan: BookingPlan, now_h: float) -> None:
        super().__init__(plan, now_h)
        self._orders: dict[int, Floats] = {}
        self._runs: dict[int, Floats] = {}
        self._predecessors: dict[int, tuple[int, ...]] = {}

    def as_of(self, now_h: float) -> None:
        """The time is ``now_h``; ends that are older than ``STALE_H``, or of a later time, are forgotten."""
        if not 0.0 <= now_h - self.now_h < STALE_H:
            self.now_h = now_h
            self._ends.clear()

    def changed(self, from_h: float) -> None:
        """Jobs that start at ``from_h`` or later have come, gone or moved: what depends on them is forgotten.

        A job's start depends only on jobs before it, so that all that begin earlier are as they were.
        """
        bookings = self._plan.bookings
        for kept in (self._ends, self._predecessors):
            for job in [job for job in kept if job not in bookings or bookings[job].from_h >= from_h]:
                del kept[job]
        for of_jobs in (self._orders, self._runs):
            for job in of_jobs.keys() - bookings.keys():
                del of_jobs[job]

    def _ends_of(self, job: int) -> Floats:
        waiting = [job]
        while waiting:
            current = waiting[-1]
            if current in self._ends:
                waiting.pop()
                continue
            before = self._before(current)
            missing = [other for other in before if other not in self._ends]
            if missing:
                waiting += missing
            else:
                self._ends[current] = self._ends_now(current, [self._ends[other] for other in before])
        return self._ends[job]

    def _before(self, job: int) -> tuple[int, ...]:
        found = self._predecessors.get(job)
        if found is None:
            waits = self._plan.bookings[job].started_h is None
            found = self._predecessors[job] = self._plan.place_of(job).predecessors if waits else ()
        return found

    def _ends_now(self, job: int, before: list[Floats]) -> Floats:
        booking = self._plan.bookings[job]
        offer = booking.offer
        order = self._orders.get(job)
        if order is None:
            order = self._orders[job] = scenario_order(job)
        if booking.started_h is not None:
            return ends_of_running(
                order, booking.started_h, offer.requested_h, booking.end_h, self.now_h, offer.accuracy
            )
        starts = self._starts_after(max(offer.release_h, self.now_h), booking.place.start_h, before)
        return ends_of_waiting(starts, self._runs_of(offer, order), booking.end_h)

    def _runs_of(self, offer: JobOffer, order: Floats) -> Floats:
        found = self._runs.get(offer.job)
        if found is None:
            found = self._runs[offer.job] = np.asarray(offer.requested_h * offer.accuracy.quantiles(order))
        return found
