"""Starts and ends of the jobs in a plan, as known now, by scenarios."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.runtime.success import ends_of_running, ends_of_waiting, executable_by_scenarios, scenario_order
from jobsight_scheduler.overbooking.plan import Booking, BookingPlace, BookingPlan, JobOffer

STEP_H = 0.1
"""Step of the published grid of times; ends within one count as equal."""

NEGLIGIBLE = 0.002
"""Change of the probability to have ended, at any instant, below which later jobs are ignored."""

Ends = TypeVar("Ends")
Starts = TypeVar("Starts")


class PlanRisk(ABC, Generic[Starts, Ends]):
    """P_executable of jobs in ``plan`` as of ``now_h``. Make a new one when time has passed or the plan has changed."""

    def __init__(self, plan: BookingPlan, now_h: float) -> None:
        self._plan = plan
        self.now_h = now_h
        self._ends: dict[int, Ends] = {}

    def executable(self, offer: JobOffer, place: BookingPlace) -> float:
        """Return P_executable of ``offer`` at ``place``; 1 if there is room for all of the requested time."""
        if place.end_h >= place.start_h + offer.requested_h:
            return 1.0
        return self._executable(self._starts(offer, place), offer, place.end_h)

    def executable_booked(self, job: int) -> float:
        """Return P_executable of a job of the plan that waits, by the present plan."""
        return self.executable(self._plan.bookings[job].offer, self._plan.place_of(job))

    def after(self, offer: JobOffer, place: BookingPlace) -> Iterator[tuple[int, float]]:
        """Yield P_executable of the overbooked jobs that wait after ``place``, if ``offer`` were booked there.

        In the order of starts: jobs right after it, and later ones whose predecessors would end later because of it.
        """
        bookings = self._plan.bookings
        own = self._ends_waiting(offer, self._starts(offer, place), place.end_h)
        later: dict[int, Ends] = {}
        queue = [(bookings[job].from_h, job) for job in place.successors if bookings[job].started_h is None]
        heapify(queue)
        done = set()
        while queue:
            _, job = heappop(queue)
            if job in done:
                continue
            done.add(job)
            booking, where = bookings[job], self._plan.place_of(job)
            ends = [later[other] if other in later else self._ends_of(other) for other in where.predecessors]
            if job in place.successors:
                ends.append(own)
            starts = self._starts_after(max(booking.offer.release_h, self.now_h), where.start_h, ends)
            if booking.is_overbooked:
                yield job, self._executable(starts, booking.offer, where.end_h)
            changed = self._ends_waiting(booking.offer, starts, booking.end_h)
            if self._differ(changed, self._ends_of(job)):
                later[job] = changed
                for other in where.successors:
                    if bookings[other].started_h is None and other not in done:
                        heappush(queue, (bookings[other].from_h, other))

    def best_case(self, offer: JobOffer, place: BookingPlace) -> float:
        """Return an upper bound of P_executable: the job starts as early as it may, whatever its predecessors."""
        earliest = max(offer.release_h, self.now_h)
        return float(offer.accuracy.within((place.end_h - earliest) / offer.requested_h))

    def _starts(self, offer: JobOffer, place: BookingPlace) -> Starts:
        ends = [self._ends_of(job) for job in place.predecessors]
        return self._starts_after(max(offer.release_h, self.now_h), place.start_h, ends)

    def _ends_of(self, job: int) -> Ends:
        """Return the ends of a job of the plan; without recursion, since chains may be long."""
        waiting = [job]
        while waiting:
            current = waiting[-1]
            booking = self._plan.bookings[current]
            if current in self._ends:
                waiting.pop()
            elif booking.started_h is not None:
                self._ends[current] = self._ends_running(booking, booking.started_h)
            else:
                place = self._plan.place_of(current)
                if missing := [other for other in place.predecessors if other not in self._ends]:
                    waiting += missing
                else:
                    starts = self._starts(booking.offer, place)
                    self._ends[current] = self._ends_waiting(booking.offer, starts, booking.end_h)
        return self._ends[job]

    @abstractmethod
    def _starts_after(self, earliest_h: float, planned_h: float, ends: list[Ends]) -> Starts: ...

    @abstractmethod
    def _ends_running(self, booking: Booking, started_h: float) -> Ends: ...

    @abstractmethod
    def _ends_waiting(self, offer: JobOffer, starts: Starts, end_h: float) -> Ends: ...

    @abstractmethod
    def _differ(self, one: Ends, other: Ends) -> bool: ...

    @abstractmethod
    def _executable(self, starts: Starts, offer: JobOffer, end_h: float) -> float: ...


class FastRisk(PlanRisk["Floats | float", Floats]):
    """Risk by equally likely scenarios, without convolution."""

    def _starts_after(self, earliest_h: float, planned_h: float, ends: list[Floats]) -> Floats | float:
        if not ends:
            return earliest_h
        latest = np.maximum(ends[0], earliest_h)
        for other in ends[1:]:
            np.maximum(latest, other, out=latest)
        return np.minimum(latest, planned_h, out=latest)

    def _ends_running(self, booking: Booking, started_h: float) -> Floats:
        offer = booking.offer
        return ends_of_running(
            scenario_order(offer.job), started_h, offer.requested_h, booking.end_h, self.now_h, offer.accuracy
        )

    def _ends_waiting(self, offer: JobOffer, starts: Floats | float, end_h: float) -> Floats:
        runs = self._plan.run_times.get((offer.job, 0.0))
        if runs is None:
            runs = offer.requested_h * offer.accuracy.quantiles(scenario_order(offer.job))
            if offer.job in self._plan.bookings:
                self._plan.run_times[offer.job, 0.0] = runs
        return ends_of_waiting(starts, runs, end_h)

    def _differ(self, one: Floats, other: Floats) -> bool:
        return float(np.count_nonzero(np.abs(one - other) > STEP_H)) > NEGLIGIBLE * len(one)

    def _executable(self, starts: Floats | float, offer: JobOffer, end_h: float) -> float:
        return executable_by_scenarios(starts, end_h, offer.requested_h, offer.accuracy)


STALE_H = 1.0 / 60.0
"""Hours after which to recompute the ends of jobs; a sixth of the step of the published grid."""


class KeptRisk(FastRisk):
    """``FastRisk`` that caches the ends of the jobs of its plan.

    Call ``changed`` after a change of the plan; ``as_of`` moves the time on.
    """

    def as_of(self, now_h: float) -> None:
        """Set the time to ``now_h``; forget ends older than ``STALE_H``, or of a later time."""
        if not 0.0 <= now_h - self.now_h < STALE_H:
            self.now_h = now_h
            self._ends.clear()

    def changed(self, from_h: float) -> None:
        """Forget the ends of jobs that start at ``from_h`` or later: these have come, gone or moved.

        A job's start depends only on jobs before it, so earlier jobs are unchanged.
        """
        bookings = self._plan.bookings
        for job in [job for job in self._ends if job not in bookings or bookings[job].from_h >= from_h]:
            del self._ends[job]
