"""The last value again (docs/use/definitions.md, Locality)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal


class Locality(Forecaster):
    """The value of the job that ended last."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: float | None = None

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._last = value

    def forecast(self) -> float | None:
        return self._last

    def state(self) -> dict[str, Any]:
        return {"last": self._last}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls()
        restored._last = None if state["last"] is None else float(state["last"])
        return restored

    def fresh(self) -> Self:
        return type(self)()

    def replay(self, values: Floats) -> Floats:
        series = checked_series(values)
        forecasts = np.full(len(series), np.nan)
        forecasts[1:] = series[:-1]
        return forecasts
