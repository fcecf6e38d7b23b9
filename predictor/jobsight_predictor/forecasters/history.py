"""The mean of all values so far (docs/use/definitions.md, History)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal


class History(Forecaster):
    """The mean of the whole history, updated in place: no sum that could overflow or lose small values."""

    __slots__ = ("_mean", "_n")

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

    def state(self) -> dict[str, Any]:
        return {"n": self._n, "mean": self._mean}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls()
        restored._n = int(state["n"])
        restored._mean = float(state["mean"])
        return restored

    def fresh(self) -> Self:
        return type(self)()

    def replay(self, values: Floats) -> Floats:
        series = checked_series(values)
        forecasts = np.full(len(series), np.nan)
        if len(series) > 1:
            counts = np.arange(1.0, len(series))
            # Divided by the largest first, so that a sum of huge values stays finite.
            scale = float(series.max()) or 1.0
            forecasts[1:] = np.cumsum(series[:-1] / scale) / counts * scale
        return forecasts
