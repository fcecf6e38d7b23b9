"""What the plan says of its jobs as it stands: from when each may start, and how likely it ends in its place."""

from __future__ import annotations

from collections import deque

from jobsight_server.systems.offers.standing_plan import HOUR_S, StandingPlan


class InPlan:
    """The jobs of a plan at ``now``. Nothing else may change the plan while it is used."""

    def __init__(self, standing: StandingPlan, now: float) -> None:
        self._plan = standing.plan
        self._now_h = now / HOUR_S
        self._risk = standing.risk
        self._earliest_h: dict[int, float] = {}
        self._waiting = deque(sorted(self._plan.bookings, key=lambda job: self._plan.bookings[job].from_h))

    def earliest_start(self, number: int) -> float | None:
        """From when the job may start; of one that runs, its start; None if it is not in the plan.

        It must be released, and the jobs before it on its nodes must have started. Each of these may end at once, so
        nothing later is certain.
        """
        while number in self._plan.bookings and number not in self._earliest_h:
            # In the order of their starts, so that those before it are known.
            job = self._waiting.popleft()
            booking = self._plan.bookings[job]
            before = self._plan.place_of(job).predecessors if booking.started_h is None else ()
            known = [self._earliest_h.get(other, self._now_h) for other in before]
            earliest_h = min(max(booking.offer.release_h, self._now_h, *known), booking.from_h)
            self._earliest_h[job] = earliest_h if booking.started_h is None else booking.started_h
        found = self._earliest_h.get(number)
        return None if found is None else found * HOUR_S

    def executable(self, number: int) -> float | None:
        """Probability that the job ends in its place; None if it is not in the plan."""
        booking = self._plan.bookings.get(number)
        if booking is None:
            return None
        offer = booking.offer
        if booking.started_h is None:
            return self._risk.executable_booked(number)
        run = (self._now_h - booking.started_h) / offer.requested_h
        return float(offer.accuracy.after(run).within((booking.end_h - booking.started_h) / offer.requested_h))
