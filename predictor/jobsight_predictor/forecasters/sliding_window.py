"""The mean of the last few values (docs/use/definitions.md, Sliding window)."""

from __future__ import annotations

from .base import LARGEST, Forecaster, refusal


class SlidingWindow(Forecaster):
    """The mean of the last ``window`` values, or of all if there are fewer."""

    __slots__ = ("_values", "_window")
    kept = ("window", "values")

    def __init__(self, window: int = 5) -> None:
        self._window = window
        self._values: list[float] = []

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._values.append(value)
        del self._values[: -self._window]

    def forecast(self) -> float | None:
        values = self._values
        return sum(values) / len(values) if values else None
