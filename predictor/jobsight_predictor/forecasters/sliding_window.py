"""The mean of the last few values (docs/use/definitions.md, Sliding window)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal


class SlidingWindow(Forecaster):
    """The mean of the last ``window`` values, or of all while there are fewer."""

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
        return sum(values) / len(values) if values else None

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
        forecasts = np.full(len(series), np.nan)
        if len(series) > 1:
            window = self._values.maxlen or 1
            # Added oldest first, as ``sum`` does. A running sum would let one huge value leave its rounding behind.
            sums = np.zeros(len(series) - 1)
            for back in range(min(window, len(sums)) - 1, -1, -1):
                sums[back:] += series[: len(sums) - back]
            forecasts[1:] = sums / np.minimum(np.arange(1, len(series)), window)
        return forecasts
