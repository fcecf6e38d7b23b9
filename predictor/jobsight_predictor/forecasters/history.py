"""The mean of all values so far (docs/use/definitions.md, History)."""

from __future__ import annotations

from .base import LARGEST, Forecaster, refusal


class History(Forecaster):
    """The mean of the whole history, updated in place: a sum could overflow or lose small values."""

    __slots__ = ("_mean", "_n")
    kept = ("n", "mean")

    def __init__(self) -> None:
        self._n = 0
        self._mean = 0.0

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._n += 1
        self._mean += (value - self._mean) / self._n

    def forecast(self) -> float | None:
        return self._mean if self._n else None
