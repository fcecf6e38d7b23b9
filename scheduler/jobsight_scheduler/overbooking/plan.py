"""The plan: bookings over processors and time, and its free slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Integers
from jobsight_predictor.runtime.accuracy import RuntimeAccuracy


@dataclass(frozen=True, slots=True)
class JobOffer:
    """A job that asks for ``nodes`` processors for ``requested_h`` hours, between release and deadline (hours).

    The deadline is after the release. ``charge`` is earned if the job succeeds, ``penalty`` paid if it was accepted and
    fails.
    """

    job: int
    nodes: int
    requested_h: float
    release_h: float
    deadline_h: float
    accuracy: RuntimeAccuracy
    charge: float
    penalty: float


@dataclass(frozen=True, slots=True)
class BookingPlace:
    """Processors that are free from ``start_h`` until ``end_h``: next booking, deadline, or end of the requested time.

    ``predecessors`` and ``successors`` are the job numbers of the last booking before and the first one after the slot
    on each processor, each once. A job that has ended is no predecessor, but its booked time is not free.
    """

    start_h: float
    end_h: float
    processors: Integers
    predecessors: tuple[int, ...]
    successors: tuple[int, ...]


class Booking:
    """An accepted job in the plan. It occupies its processors from ``from_h`` until ``until_h``.

    ``from_h`` is the planned start until the job starts, then its start. ``pof`` is the predicted probability of
    failure at its acceptance.
    """

    __slots__ = ("end_h", "from_h", "has_ended", "machine", "offer", "place", "pof", "started_h", "until_h")

    def __init__(self, offer: JobOffer, place: BookingPlace, pof: float, machine: float = 1.0) -> None:
        self.offer = offer
        self.place = place
        self.pof = pof
        self.machine = machine
        """P_available times P_success."""
        self.from_h = place.start_h
        self.until_h = place.end_h
        self.end_h = place.end_h
        """Last instant at which the job may run."""
        self.started_h: float | None = None
        self.has_ended = False

    @property
    def is_overbooked(self) -> bool:
        """Return whether its gap is shorter than its requested time, if it starts as planned."""
        return self.end_h < self.from_h + self.offer.requested_h


_NONE = np.int32(2**31 - 1)
_ROOM = 64  # bookings; room of a new timetable


class Timetable:
    """Row r is the state after the first r bookings, by their beginning, have begun; columns are processors.

    ``last`` is the booking that began last on a processor, ``until`` its end; ``next`` the one that begins next,
    ``next_from`` its beginning. Bookings have numbers in the order of arrival. ``froms`` are the beginnings, ascending.
    ``places`` caches slots of bookings.
    """

    def __init__(self, bookings: Iterable[Booking], processors: int) -> None:
        # A job that ended at once may have begun together with the one after it.
        self._bookings = sorted(bookings, key=lambda booking: (booking.from_h, booking.until_h))
        count = len(self._bookings)
        self.places: dict[int, BookingPlace] = {}
        self._number = {booking.offer.job: number for number, booking in enumerate(self._bookings)}
        self._rows = np.arange(count)
        froms = np.array([booking.from_h for booking in self._bookings], dtype=np.float64)
        uses = np.full((count + 1, processors), -1, dtype=np.int32)
        for row, booking in enumerate(self._bookings, 1):
            uses[row, booking.place.processors] = row - 1
        last = np.maximum.accumulate(uses, axis=0)
        follows = np.where(uses < 0, _NONE, uses)
        following = np.full((count + 1, processors), _NONE, dtype=np.int32)
        if count:
            following[:-1] = np.minimum.accumulate(follows[:0:-1], axis=0)[::-1]
        untils = np.array([*(booking.until_h for booking in self._bookings), -np.inf])
        next_from = np.append(froms, np.inf)[np.minimum(following, count)]
        self._make_room(froms, last, untils[last], following, next_from)  # -1 is the last of the untils

    def insert(self, booking: Booking) -> None:
        """Add a booking whose processors are free for all of its time."""
        count, processors = len(self.froms), booking.place.processors
        row = int(np.searchsorted(self.froms, booking.from_h, side="right"))
        if len(self._all_froms) == count:
            self._make_room(self.froms, self.last, self.until, self.next, self.next_from)
        self._all_froms[row + 1 : count + 1] = self._all_froms[row:count]
        self._all_froms[row] = booking.from_h
        for table in self._all:
            table[row + 2 : count + 2] = table[row + 1 : count + 1]
            table[row + 1] = table[row]
        number = len(self._bookings)
        self._bookings.append(booking)
        self._number[booking.offer.job] = number
        self._rows = np.append(np.where(self._rows >= row, self._rows + 1, self._rows), row)
        self._show(count + 1)
        before, after = self.last[row, processors], self.next[row, processors]
        for job in (*self.jobs_of(before, False), *self.jobs_of(after, False)):
            self.places.pop(job, None)
        self._replace(slice(row + 1, None), before, self.last, number, self.until, booking)
        self._replace(slice(0, row + 1), after, self.next, number, self.next_from, booking)

    def row_of(self, job: int) -> int:
        """Return the number of bookings that begin before that of the job."""
        return int(self._rows[self._number[job]])

    def jobs_of(self, numbers: NDArray[np.int32], running: bool) -> tuple[int, ...]:
        """Return the jobs of the bookings with these numbers, each once; with ``running``, without ended ones."""
        found = dict.fromkeys(numbers.tolist())
        count = len(self._bookings)
        chosen = [self._bookings[number] for number in found if 0 <= number < count]
        return tuple(b.offer.job for b in chosen if not (running and b.has_ended))

    def _replace(
        self,
        rows: slice,
        known: NDArray[np.int32],
        table: NDArray[np.int32],
        number: int,
        times: NDArray[np.float64],
        booking: Booking,
    ) -> None:
        """Overwrite these rows on the booking's processors."""
        processors = booking.place.processors
        numbers = table[rows, processors]
        same = numbers == known
        table[rows, processors] = np.where(same, number, numbers)
        time = booking.until_h if table is self.last else booking.from_h
        times[rows, processors] = np.where(same, time, times[rows, processors])

    def _make_room(self, froms: NDArray[np.float64], *tables: NDArray[np.int32] | NDArray[np.float64]) -> None:
        """Copy the tables into ones with room for twice the bookings."""
        count, room = len(froms), max(_ROOM, len(froms))
        self._all_froms = np.concatenate((froms, np.empty(room)))
        self._all = [np.concatenate((table, np.empty((room, table.shape[1]), table.dtype))) for table in tables]
        self._show(count)

    def _show(self, count: int) -> None:
        self.froms = self._all_froms[:count]
        self.last, self.until, self.next, self.next_from = (table[: count + 1] for table in self._all)


Choice = Literal["strict", "full-first"]
"""Free processors to choose: the lowest-numbered, or first those free for all of the requested time."""

LARGEST_PLAN = 100_000
"""Most processors of a plan."""

_AT_ONCE = 32  # starts to examine together
_FEW = 8  # bookings to add to the timetable one by one


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
        """Run times of booked jobs, kept for forms of risk: by job, and step of the grid or 0."""
        self._tables: Timetable | None = None

    def load(self, bookings: Iterable[Booking]) -> None:
        """Load the bookings of a plan kept elsewhere, unchanged."""
        loaded = {booking.offer.job: booking for booking in bookings}
        if self._tables is None or len(loaded) > _FEW or not self.bookings.keys().isdisjoint(loaded):
            self._tables = None
        else:
            for booking in loaded.values():
                self._tables.insert(booking)
        self.bookings |= loaded

    def remove(self, job: int) -> Booking:
        """Remove a job from the plan; its time is free.

        Raises:
            KeyError: it is not in the plan.
        """
        self._tables = None
        self._drop_run_times([job])
        return self.bookings.pop(job)

    def start(self, job: int, now_h: float) -> None:
        """Start a job, not after its planned start; its occupied time begins now."""
        booking = self.bookings[job]
        booking.started_h = booking.from_h = now_h
        booking.end_h = min(booking.end_h, now_h + booking.offer.requested_h)
        self._tables = None

    def starts(self, earliest_h: float, latest_h: float) -> Floats:
        """Return candidate starts, ascending: ``earliest_h``, and every later booked end before ``latest_h``."""
        ends = [booking.until_h for booking in self.bookings.values() if earliest_h < booking.until_h < latest_h]
        return np.unique(np.array([earliest_h, *ends]))

    def places(
        self, starts_h: Floats, nodes: int, requested_h: float, deadline_h: float, choice: Choice = "strict"
    ) -> Iterator[BookingPlace]:
        """Return the slot, up to the deadline, for each start at which at least ``nodes`` processors are free."""
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
        """Return the slot of a booking, with its present predecessors and successors.

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
