"""The agent's log: lines on standard error, with repetition limited."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_PAUSE_S = 60.0


class Log:
    """Writes a lasting problem once a minute, however often it occurs."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._next: dict[str, float] = {}

    def say(self, message: str) -> None:
        """Write a line."""
        print(f"jobsight-agent: {message}", file=sys.stderr, flush=True)

    def once_a_minute(self, kind: str, message: str) -> bool:
        """Write a line unless one of this kind was written in the last minute; return whether it was written."""
        now = self._monotonic()
        if now < self._next.get(kind, now):
            return False
        self._next[kind] = now + _PAUSE_S
        self.say(message)
        return True
