"""The value one period ago: for users who submit the same jobs in the same order again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal

ALIKE = 0.2  # share of the newer; values agree when they differ by no more


class Seasonal(Forecaster):
    """The value one period ago, for a fixed ``period`` or else one redetermined after each value.

    A period p is one of which the last p values agree with the p before them. Of several, the one that has held for
    most values in a row, of equals the shortest; with none, as with less than a period of history, the last value.
    A single spike is therefore never taken for the start of a period. Periods up to ``longest`` are looked for,
    O(longest) a value.
    """

    __slots__ = ("_period", "_runs", "_values")

    def __init__(self, period: int | None = None, longest: int = 24) -> None:
        if longest < 1 or (period is not None and not 1 <= period <= longest):
            raise ValueError(f"period is {period}, longest {longest}: a period is at least 1 and at most the longest")
        self._period = period
        self._values: deque[float] = deque(maxlen=longest)  # newest first
        self._runs = [0] * longest  # for each lag, how many values in a row have agreed with the one so long ago

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        if self._period is None:
            allowed = ALIKE * value
            runs = self._runs
            for i, earlier in enumerate(self._values):
                runs[i] = runs[i] + 1 if abs(earlier - value) <= allowed else 0
        self._values.appendleft(value)

    def forecast(self) -> float | None:
        values = self._values
        if not values:
            return None
        period = self._period or self.found()
        return values[period - 1] if period <= len(values) else values[0]

    def found(self) -> int:
        """The period that the values have shown; 1 if none."""
        period, longest_run = 1, 0
        for lag, run in enumerate(self._runs, 1):
            if run >= lag and run > longest_run:
                period, longest_run = lag, run
        return period

    def state(self) -> dict[str, Any]:
        return {
            "period": self._period,
            "longest": self._values.maxlen,
            "values": list(self._values),
            "runs": list(self._runs),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(state["period"], int(state["longest"]))
        restored._values.extend(state["values"])
        restored._runs = list(state["runs"])
        return restored

    def fresh(self) -> Self:
        return type(self)(self._period, len(self._runs))

    def replay(self, values: Floats) -> Floats:
        series = checked_series(values)
        n = len(series)
        forecasts = np.full(n, np.nan)
        forecasts[1:] = series[:-1]
        if self._period is not None:
            forecasts[self._period :] = series[: -self._period]
            return forecasts
        places = np.arange(n)
        longest_runs = np.zeros(n, dtype=np.intp)
        for lag in range(1, min(len(self._runs), n - 1) + 1):
            agree = np.abs(series[:-lag] - series[lag:]) <= ALIKE * series[lag:]
            # The run of agreeing values that ends at each place, from the last place that did not agree.
            runs = places[lag:] - np.maximum.accumulate(np.where(agree, lag - 1, places[lag:]))
            better = np.flatnonzero((runs[:-1] >= lag) & (runs[:-1] > longest_runs[lag:-1])) + lag
            longest_runs[better] = runs[better - lag]
            forecasts[better + 1] = series[better + 1 - lag]
        return forecasts
