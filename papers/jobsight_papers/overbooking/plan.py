"""The plan of a simulated machine: jobs are booked one by one, and end."""

from __future__ import annotations

import numpy as np

from jobsight_scheduler.overbooking.plan import Booking, BookingPlan


class SimulatedPlan(BookingPlan):
    """A plan whose jobs end before their time."""

    def add(self, booking: Booking) -> None:
        """Book a slot that ``places`` returned since the last change.

        Raises:
            ValueError: the job is in the plan, or its processors are taken for part of the time.
        """
        job = booking.offer.job
        if job in self.bookings:
            raise ValueError(f"job {job} is in the plan already")
        tables, processors = self._current(), booking.place.processors
        row = int(np.searchsorted(tables.froms, booking.from_h, side="right"))
        if (tables.until[row, processors] > booking.from_h).any() or (
            tables.next_from[row, processors] < booking.until_h
        ).any():
            raise ValueError(f"job {job}: its processors are taken at {booking.from_h:g} h; ask for a time slot again")
        self.bookings[job] = booking
        tables.insert(booking)

    def end(self, job: int, now_h: float, resell: bool) -> None:
        """End a job; with ``resell`` the rest of its time is free from now on, otherwise lost."""
        booking = self.bookings[job]
        booking.has_ended = True
        if self._tables is not None:
            self._tables.places.clear()  # no longer a predecessor
        if resell:
            booking.until_h = min(booking.until_h, now_h)
            self._tables = None

    def forget(self, now_h: float) -> None:
        """Drop ended jobs whose booked time is over."""
        gone = [job for job, booking in self.bookings.items() if booking.has_ended and booking.until_h <= now_h]
        for job in gone:
            del self.bookings[job]
        if gone:
            self._tables = None
            self._drop_run_times(gone)
