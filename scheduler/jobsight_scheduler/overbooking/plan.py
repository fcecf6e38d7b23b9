"""The plan: bookings over processors and time, and where in it there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .booking import Booking, BookingPlace, Ints
from .timetable import Timetable

Choice = Literal["strict", "full-first"]
CHOICES: tuple[Choice, ...] = ("strict", "full-first")
"""Which free processors a place has: the lowest-numbered, or first those free for all of the requested time."""

LARGEST_PLAN = 100_000
"""Most processors of a plan."""

_AT_ONCE = 32  # starts that are looked at together
_FEW = 8  # bookings; that are added to the timetable one by one

Floats = NDArray[np.float64]


class BookingPlan:
    """Bookings on processors 0 .. ``processors`` - 1. On each of them, bookings do not overlap.

    Raises:
        ValueError: the plan has no processors, or more than ``LARGEST_PLAN``.
    """

    def __init__(self, processors: int) -> None:
        if not 1 <= processors <= LARGEST_PLAN:
            raise ValueError(f"a plan for {processors} processors; give 1 to {LARGEST_PLAN:,}")
        self.processors = processors
        self.bookings: dict[int, Booking] = {}
        self.run_times: dict[tuple[int, float], Floats] = {}
        """Run times of booked jobs as forms of risk keep them: by job, and step of the grid or 0."""
        self._tables: Timetable | None = None

    def add(self, booking: Booking) -> None:
        """Books a place that ``places`` gave since the last change.

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
            raise ValueError(f"job {job}: its processors are taken at {booking.from_h:g} h; ask for a place again")
        self.bookings[job] = booking
        tables.insert(booking)

    def load(self, bookings: Iterable[Booking]) -> None:
        """Takes over bookings of a plan that was kept elsewhere, as they are."""
        loaded = {booking.offer.job: booking for booking in bookings}
        if self._tables is None or len(loaded) > _FEW or not self.bookings.keys().isdisjoint(loaded):
            self._tables = None
        else:
            for booking in loaded.values():
                self._tables.insert(booking)
        self.bookings |= loaded

    def remove(self, job: int) -> Booking:
        """Takes a job out of the plan; its time is free.

        Raises:
            KeyError: it is not in the plan.
        """
        self._tables = None
        self._drop_run_times([job])
        return self.bookings.pop(job)

    def start(self, job: int, now_h: float) -> None:
        """The job starts, not after its planned start; what it occupies begins now."""
        booking = self.bookings[job]
        booking.started_h = booking.from_h = now_h
        booking.end_h = min(booking.end_h, now_h + booking.offer.requested_h)
        self._tables = None

    def end(self, job: int, now_h: float, resell: bool) -> None:
        """The job has ended; with ``resell`` the rest of its time is free from now on, otherwise lost."""
        booking = self.bookings[job]
        booking.has_ended = True
        if self._tables is not None:
            self._tables.places.clear()  # it is no predecessor any more
        if resell:
            booking.until_h = min(booking.until_h, now_h)
            self._tables = None

    def move(self, job: int, place: BookingPlace) -> None:
        """A job that runs goes on at another place, from now (the start of ``place``) on."""
        booking = self.bookings[job]
        booking.place = place
        booking.from_h = place.start_h
        booking.until_h = booking.end_h = place.end_h
        self._tables = None

    def forget(self, now_h: float) -> None:
        """Drops jobs that have ended and whose booked time is over."""
        gone = [job for job, booking in self.bookings.items() if booking.has_ended and booking.until_h <= now_h]
        for job in gone:
            del self.bookings[job]
        if gone:
            self._tables = None
            self._drop_run_times(gone)

    def starts(self, earliest_h: float, latest_h: float) -> Floats:
        """Candidate starts, ascending: ``earliest_h``, and every booked end from there until before ``latest_h``."""
        ends = [booking.until_h for booking in self.bookings.values() if earliest_h < booking.until_h < latest_h]
        return np.unique(np.array([earliest_h, *ends]))

    def places(
        self, starts_h: Floats, nodes: int, requested_h: float, deadline_h: float, choice: Choice = "strict"
    ) -> Iterator[BookingPlace]:
        """For each start at which at least ``nodes`` processors are free, the place there, up to the deadline."""
        if nodes > self.processors:
            return
        tables = self._current()
        for first in range(0, len(starts_h), _AT_ONCE):
            some = starts_h[first : first + _AT_ONCE]
            rows = np.searchsorted(tables.froms, some, side="right")
            free = tables.until[rows] <= some[:, None]
            enough = np.count_nonzero(free, axis=1) >= nodes
            for i in np.flatnonzero(enough).tolist():
                start, row = float(some[i]), rows[i]
                processors = np.flatnonzero(free[i])
                next_from = tables.next_from[row]
                if choice == "full-first":
                    room = np.minimum(next_from[processors], min(deadline_h, start + requested_h))
                    processors = np.sort(processors[np.argsort(-room, kind="stable")[:nodes]])
                else:
                    processors = processors[:nodes]
                end = min(float(next_from[processors].min()), deadline_h, start + requested_h)
                yield BookingPlace(
                    start,
                    end,
                    processors,
                    tables.jobs_of(tables.last[row, processors], True),
                    tables.jobs_of(tables.next[row, processors], False),
                )

    def place_of(self, job: int) -> BookingPlace:
        """The place of a booking, with the predecessors and successors that it has now.

        Raises:
            KeyError: it is not in the plan.
        """
        booking, tables = self.bookings[job], self._current()
        found = tables.places.get(job)
        if found is None:
            row, processors = tables.row_of(job), booking.place.processors
            found = tables.places[job] = BookingPlace(
                booking.from_h,
                booking.end_h,
                processors,
                tables.jobs_of(tables.last[row, processors], True),
                tables.jobs_of(tables.next[row + 1, processors], False),
            )
        return found

    def _drop_run_times(self, jobs: Sequence[int]) -> None:
        dropped = set(jobs)
        for key in [key for key in self.run_times if key[0] in dropped]:
            del self.run_times[key]

    def _current(self) -> Timetable:
        if self._tables is None:
            self._tables = Timetable(self.bookings.values(), self.processors)
        return self._tables


def processors_of(numbers: Sequence[int]) -> Ints:
    """Processor numbers as a plan holds them: sorted."""
    return np.array(sorted(numbers), dtype=np.int64)
