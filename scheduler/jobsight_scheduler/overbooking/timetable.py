"""What holds on each processor at each moment of a plan."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .booking import Booking, BookingPlace

_NONE = np.int32(2**31 - 1)
_ROOM = 64  # bookings; for which a timetable has room at first


class Timetable:
    """Row r is what holds after the first r bookings, by their beginning, have begun; columns are processors.

    ``last`` is the booking that began last on a processor, ``until`` when it ends; ``next`` the one that begins next,
    ``next_from`` when: bookings by their number in the order in which they came. ``froms`` are the beginnings,
    ascending. ``places`` are those of bookings that were asked for.
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
        """Adds a booking whose processors are free for all of its time."""
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
        """How many bookings begin before that of the job."""
        return int(self._rows[self._number[job]])

    def jobs_of(self, numbers: NDArray[np.int32], running: bool) -> tuple[int, ...]:
        """Jobs of the bookings with these numbers, each once; with ``running``, of those that have not ended."""
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
        """On the booking's processors, in these rows, it takes the place of what was known there."""
        processors = booking.place.processors
        numbers = table[rows, processors]
        same = numbers == known
        table[rows, processors] = np.where(same, number, numbers)
        time = booking.until_h if table is self.last else booking.from_h
        times[rows, processors] = np.where(same, time, times[rows, processors])

    def _make_room(self, froms: NDArray[np.float64], *tables: NDArray[np.int32] | NDArray[np.float64]) -> None:
        """Takes over the tables, with room for as many bookings again."""
        count, room = len(froms), max(_ROOM, len(froms))
        self._all_froms = np.concatenate((froms, np.empty(room)))
        self._all = [np.concatenate((table, np.empty((room, table.shape[1]), table.dtype))) for table in tables]
        self._show(count)

    def _show(self, count: int) -> None:
        self.froms = self._all_froms[:count]
        self.last, self.until, self.next, self.next_from = (table[: count + 1] for table in self._all)
