"""Means of all values so far, and of the last few (docs/use/definitions.md, The five forecasters)."""

from __future__ import annotations

from jobsight_predictor.forecasters.base import LARGEST, Forecaster, refusal


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
