"""The median of the last few values: follows a switch once most of them are new, and ignores a spike."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .base import LARGEST, Floats, Forecaster, checked_series, refusal


class Median(Forecaster):
    """The median of the last ``window`` values, or of all while there are fewer; of an even number, the lower
    middle."""

    __slots__ = ("_values",)

    def __init__(self, window: int = 5) -> None:
        if window < 1:
            raise ValueError(f"window is {window}: it must hold at least 1 value")
        self._values: deque[float] = deque(maxlen=window)

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._values.append(value)

    def forecast(self) -> float | None:
        values = self._values
        return sorted(values)[(len(values) - 1) // 2] if values else None

    def state(self) -> dict[str, Any]:
        return {"window": self._values.maxlen, "values": list(self._values)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(int(state["window"]))
        restored._values.extend(state["values"])
        return restored

    def fresh(self) -> Self:
        return type(self)(self._values.maxlen or 1)

    def replay(self, values: Floats) -> Floats:
        series = checked_series(values)
        window = self._values.maxlen or 1
        forecasts = np.full(len(series), np.nan)
        for k in range(1, min(window, len(series))):
            forecasts[k] = np.sort(series[:k])[(k - 1) // 2]
        if len(series) > window:
            middle = (window - 1) // 2
            forecasts[window:] = np.partition(sliding_window_view(series[:-1], window), middle, axis=1)[:, middle]
        return forecasts
