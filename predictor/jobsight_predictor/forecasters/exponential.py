"""Brown's double exponential smoothing (docs/use/definitions.md, Exponential)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal

_BLOCK = 32  # values; smoothed in one matrix product


@lru_cache(maxsize=64)
def _fading(keep: float) -> tuple[Floats, Floats]:
    """What each later place in a block keeps of each value, shape (block, block), and of what came before it."""
    powers = keep ** np.arange(_BLOCK + 1.0)
    steps = np.arange(_BLOCK)
    return np.tril(powers[np.abs(steps[:, None] - steps)]), powers[1:]


def _faded_sums(values: Floats, keep: float, start: float) -> Floats:
    """``s_i = keep s_(i-1) + values_i``, ``s_(-1) = start``, shape (n,): within blocks at once, then over blocks."""
    within, before = _fading(keep)
    n = len(values)
    if n <= _BLOCK:
        return np.asarray(within[:n, :n] @ values + before[:n] * start)
    blocks = np.zeros((-(-n // _BLOCK), _BLOCK))
    blocks.ravel()[:n] = values
    sums = blocks @ within.T
    ends = _faded_sums(sums[:-1, -1], keep**_BLOCK, start)
    sums[0] += before * start
    sums[1:] += ends[:, None] * before
    return sums.ravel()[:n]


class Exponential(Forecaster):
    """Level and trend, the forecast clipped to what has been seen.

    ``S`` smooths the values, ``D`` smooths ``S``, both start at the first value; the forecast is ``a + b`` with
    ``a = 2S - D`` and ``b = alpha / (1 - alpha) (S - D)``. After a jump the line runs past every value that
    ever occurred, so that ``forecast()`` stays within [min, max] of the history; ``raw_replay`` has the line.
    """

    __slots__ = ("_alpha", "_double", "_gain", "_high", "_low", "_single")

    def __init__(self, alpha: float = 0.5) -> None:
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha is {alpha}: it must be above 0 and below 1")
        self._alpha = alpha
        self._gain = alpha / (1.0 - alpha)
        self._single = 0.0
        self._double = 0.0
        self._low = 0.0
        self._high = -1.0  # below the lowest: nothing learned yet

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        if self._high < 0.0:
            self._single = self._double = self._low = self._high = value
            return
        self._single += self._alpha * (value - self._single)
        self._double += self._alpha * (self._single - self._double)
        if value > self._high:
            self._high = value
        elif value < self._low:
            self._low = value

    def forecast(self) -> float | None:
        high = self._high
        if high < 0.0:
            return None
        ahead = self._single - self._double
        line = self._single + ahead + self._gain * ahead
        if line > high:
            return high
        return self._low if line < self._low else line

    def state(self) -> dict[str, Any]:
        return {
            "alpha": self._alpha,
            "single": self._single,
            "double": self._double,
            "low": self._low,
            "high": self._high,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(float(state["alpha"]))
        restored._single = float(state["single"])
        restored._double = float(state["double"])
        restored._low = float(state["low"])
        restored._high = float(state["high"])
        return restored

    def fresh(self) -> Self:
        return type(self)(self._alpha)

    def replay(self, values: Floats) -> Floats:
        forecasts = self.raw_replay(values)
        series = np.asarray(values, dtype=np.float64)[:-1]
        if len(series):
            lows = np.minimum.accumulate(series)
            highs = np.maximum.accumulate(series)
            forecasts[1:] = np.minimum(np.maximum(forecasts[1:], lows), highs)
        return forecasts

    def raw_replay(self, values: Floats) -> Floats:
        """``replay`` before clipping, shape (n,): two recursive filters, each starting at the first value."""
        series = checked_series(values)
        forecasts = np.full(len(series), np.nan)
        if len(series) > 1:
            keep = 1.0 - self._alpha
            single = _faded_sums(self._alpha * series[:-1], keep, float(series[0]))
            double = _faded_sums(self._alpha * single, keep, float(series[0]))
            ahead = single - double
            forecasts[1:] = single + ahead + self._gain * ahead
        return forecasts
