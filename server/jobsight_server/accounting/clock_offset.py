"""Converts the scheduler server's wall clock to UTC.

Stamps are in the server's local time, and the log does not name its zone. But S records are written
at their ``start`` and E records at their ``end``, which are UTC. The difference, to a quarter of an hour, is the
zone. It is the median over the last few records, so that a late one does not matter. Only records without
another time need it: R, D and A.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from statistics import median_low

from jobsight_server.accounting.runs import JobEvent

REMEMBERED = 5
"""Number of records in the median."""

_GRID_S = 900.0
_LATE_S = 120.0  # a record written later than this after its event does not show the zone
_FARTHEST_S = 15 * 3600.0


class ClockOffset:
    """The server's offset from UTC by its records; until a record shows it, the offset of ``fallback``.

    ``fallback`` None is this machine's zone.
    """

    def __init__(self, fallback: tzinfo | None = None) -> None:
        self._fallback = fallback
        self._seen: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def known(self) -> bool:
        return bool(self._seen)

    def learn(self, event: JobEvent) -> None:
        """Learn the offset from a record that shows it."""
        moment = None if event.run is None else event.run.start if event.kind == "S" else event.run.end
        if moment is None:
            return
        difference = event.local_s - moment
        offset = round(difference / _GRID_S) * _GRID_S
        if abs(difference - offset) <= _LATE_S and abs(offset) <= _FARTHEST_S:
            self._seen.append(offset)

    def stamped(self, event: JobEvent) -> JobEvent:
        """Return the record with its stamp in UTC, once the clock has learned from it."""
        if event.utc_s is not None:
            return event
        self.learn(event)
        if self._seen:
            return replace(event, utc_s=event.local_s - median_low(self._seen))
        wall = datetime.fromtimestamp(event.local_s, UTC).replace(tzinfo=self._fallback)
        return replace(event, utc_s=wall.timestamp(), zone_guessed=True)
