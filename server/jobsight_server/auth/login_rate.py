"""Slows down guessing at the login."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0
ALLOWED = 10
_ADDRESSES_KEPT = 1024


class LoginFailures:
    """Counts failed logins per address over the last minute, in this process only."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def wait_s(self, address: str, now: float) -> float:
        """Seconds until this address may try again; 0 when it may now."""
        times = self._times.get(address)
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        return times[0] + WINDOW_S - now if times and len(times) >= ALLOWED else 0.0

    def add(self, address: str, now: float) -> None:
        """One failed attempt."""
        if address not in self._times and len(self._times) >= _ADDRESSES_KEPT:
            self._times.pop(next(iter(self._times)))
        self._times.setdefault(address, deque(maxlen=ALLOWED)).append(now)
