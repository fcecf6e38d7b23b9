"""Rate limits for log lines and examples, so that an agent that keeps retrying fills no log and no table."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class Seldom:
    """Lets each key through once in ``interval_s`` seconds, and at most ``most`` keys; remembers no more than these."""

    def __init__(self, interval_s: float, most: int) -> None:
        self._interval_s = interval_s
        self._most = most
        self._passed: dict[Hashable, float] = {}
        self._held_back = 0
        self._lock = threading.Lock()

    def lets(self, key: Hashable, now: float) -> bool:
        """Return whether ``key`` passes at ``now``, in seconds; it also does if the clock was set back."""
        with self._lock:
            self._passed = {
                known: since for known, since in self._passed.items() if 0 <= now - since < self._interval_s
            }
            if key in self._passed or len(self._passed) >= self._most:
                self._held_back += 1
                return False
            self._passed[key] = now
            return True

    def others(self) -> str:
        """Return the end of a log line: how many others were held back since the last such line."""
        with self._lock:
            held_back, self._held_back = self._held_back, 0
        return f"; {held_back} others since the last such line" if held_back else ""
