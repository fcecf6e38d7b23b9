"""What nothing was learned of for long goes: by the times of the jobs, so that any process that learns drops it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

PERIOD_S = 365.25 * 86400.0 / 12.0
"""Length of a period, in which ages are counted: a month."""

STAYS = 12  # periods; what was learned within these stays, but a group of fewer jobs only one for each of them
AGREEING = 10  # jobs; that ended in a later period before it has begun


class Part(NamedTuple):
    """A part of the stored state, as JSON values, and the last period in which it counts; None: it always does."""

    state: Any
    until: int | None


class Clock:
    """The period that lately learned jobs ended in: the earliest of the last ``AGREEING`` jobs; it never goes back.

    So a few records with a wrong year make nothing go that is in use.
    """

    def __init__(self) -> None:
        self.period = 0
        self.has_moved = False
        """Whether a period has begun since this was set to False: stored parts may have become too old."""
        self._last: deque[int] = deque(maxlen=AGREEING)

    def advance(self, at: float) -> bool:
        """Takes note of a job that ended ``at``, in seconds, UTC; returns whether parts may have become too old."""
        self._last.append(int(at // PERIOD_S))
        least = min(self._last)
        if len(self._last) < AGREEING:
            self.period = least
        elif least > self.period:
            self.period = least
            self.has_moved = True
            return True
        return False

    @property
    def until(self) -> int:
        """The last period in which something counts that learns now."""
        return self.period + STAYS

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.period, list(self._last)]

    def load(self, state: Sequence[Any]) -> None:
        """Take over ``state()``."""
        self.period = state[0]
        self._last = deque(state[1], maxlen=AGREEING)
