"""How similar the values of a series are, and how good one forecast was (docs/use/definitions.md, Quality)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from .forecasters import checked

NEAR = 0.2  # share of the reference; values are alike when they differ by less
RECENT = 20  # values; number that the recent PQM considers


def near(value: float, reference: float) -> bool:
    """Whether a value is within 20 % of the reference; only 0 is near a reference of 0."""
    if reference == 0.0:
        return value == 0.0
    return abs(value - reference) < NEAR * reference


def pqm(values: Sequence[float]) -> float | None:
    """Share of values near the first one, itself included; None below two values. 0..1."""
    if len(values) < 2:
        return None
    return sum(near(value, values[0]) for value in values) / len(values)


def recent_pqm(values: Sequence[float]) -> float | None:
    """Share of the last 20 values near the last one, itself included; None below two values. 0..1."""
    if len(values) < 2:
        return None
    recent = values[-RECENT:]
    return sum(near(value, recent[-1]) for value in recent) / len(recent)


def accuracy(forecast: float, actual: float) -> float:
    """``max(0, 1 - |forecast - actual| / actual)``, 0..1. Of an actual 0: 1 when forecast exactly, else 0.

    Raises:
        ValueError: either is not a measurement (NaN, infinite, negative).
    """
    checked(forecast)
    if checked(actual) == 0.0:
        return 1.0 if forecast == 0.0 else 0.0
    return max(0.0, 1.0 - abs(forecast - actual) / actual)


def within20(forecast: float, actual: float) -> bool:
    """Whether the forecast missed by at most 20 % of the actual; of an actual 0, whether it was exact."""
    return abs(forecast - actual) <= NEAR * actual


class Pqm:
    """PQM and recent PQM of a series as it grows; holds its first value, two counts and the last 20 values."""

    __slots__ = ("_alike", "_first", "_n", "_recent")

    def __init__(self) -> None:
        self._first = 0.0
        self._n = 0
        self._alike = 0
        self._recent: deque[float] = deque(maxlen=RECENT)

    def learn(self, value: float) -> None:
        """Learn the next value.

        Raises:
            ValueError: it is not a measurement.
        """
        checked(value)
        if self._n == 0:
            self._first = value
        self._n += 1
        self._alike += near(value, self._first)
        self._recent.append(value)

    @property
    def n(self) -> int:
        """Number of values learned."""
        return self._n

    @property
    def last_values(self) -> tuple[float, ...]:
        """The last values, at most 20, oldest first."""
        return tuple(self._recent)

    def pqm(self) -> float | None:
        """Share of values near the first; None below two values."""
        return self._alike / self._n if self._n >= 2 else None

    def recent_pqm(self) -> float | None:
        """Share of the last 20 near the last; None below two values."""
        return recent_pqm(list(self._recent))

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        return {"first": self._first, "n": self._n, "alike": self._alike, "recent": list(self._recent)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restores exactly the one whose ``state()`` this was."""
        restored = cls()
        restored._first = float(state["first"])
        restored._n = int(state["n"])
        restored._alike = int(state["alike"])
        restored._recent.extend(state["recent"])
        return restored
