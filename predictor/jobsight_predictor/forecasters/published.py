"""The five published predictors (docs/use/definitions.md, The five forecasters)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import compress, repeat
from operator import mul
from typing import Any, Self

from jobsight_predictor.forecasters.base import LARGEST, Forecaster, refusal

CELLS_PER_BIN = 20  # cells of the grid that represents a long history


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


class Weighted(Forecaster):
    """``sum_b f_b S_b / sum_b f_b^2`` over ``bins`` equal bins on [min, max] of the history.

    ``f_b`` counts and ``S_b`` sums the values of bin b. A value inside the range goes into its bin in O(log bins); one
    that widens the range causes all points to be binned again. Up to ``memory`` values, each is a point and the result
    exact. Beyond that, the points are the means of a grid of ``CELLS_PER_BIN`` cells a bin, which bounds work and
    memory: exact until the range widens, then off by the values that cross an edge with their cell.
    """

    __slots__ = (
        "_bins",
        "_cell_width",
        "_counts",
        "_denominator",
        "_edges",
        "_high",
        "_low",
        "_memory",
        "_numerator",
        "_points",
        "_sums",
        "_weights",
    )
    # The state has counts, sums and numerator too: the points give them only up to the order of additions.
    kept = ("bins", "memory", "low", "high", "points", "weights", "counts", "sums", "numerator")

    def __init__(self, bins: int = 10, memory: int = 500) -> None:
        self._bins = bins
        self._memory = memory
        self._points: list[float] = []
        self._weights: list[int] = []  # counts of the cells whose means are the points; empty: each point is a value
        self._cell_width = 0.0
        self._low = 0.0
        self._high = -1.0  # below the lowest: nothing learned yet
        self._edges: list[float] = []
        self._counts: list[int] = []
        self._sums: list[float] = []
        self._numerator = 0.0
        self._denominator = 0

    def learn(self, value: float) -> None:
        if self._low <= value <= self._high:
            b = bisect_right(self._edges, value)
            self._counts[b] = count = self._counts[b] + 1
            total = self._sums[b]
            self._sums[b] = total + value
            self._numerator += total + count * value
            self._denominator += count + count - 1
            weights = self._weights
            if weights:
                cell = int((value - self._low) / self._cell_width)
                weights[cell] = weight = weights[cell] + 1
                self._points[cell] += (value - self._points[cell]) / weight
            else:
                self._points.append(value)
                if len(self._points) > self._memory:
                    self._spread(self._points, [])
        elif 0.0 <= value <= LARGEST:
            self._widen(value)
        else:
            raise refusal(value)

    def forecast(self) -> float | None:
        low, high = self._low, self._high
        if low == high:
            return low
        if high < 0.0:
            return None
        forecast = self._numerator / self._denominator
        # Beyond the range only by rounding, or when sums of values near the largest double overflow.
        if forecast > high:
            return high
        return low if forecast < low else forecast

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = super().from_state(state)
        restored._set_range(restored._low, restored._high)
        restored._denominator = sum(count * count for count in restored._counts)
        return restored

    def _set_range(self, low: float, high: float) -> None:
        self._low, self._high = low, high
        step = (high - low) / self._bins
        # Inner edges only: the last bin includes its upper edge.
        self._edges = [k * step + low for k in range(1, self._bins)]
        # A range too narrow to be divided is one cell.
        self._cell_width = step / CELLS_PER_BIN if step > 1e-290 else math.inf

    def _widen(self, value: float) -> None:
        """Learn a value outside the range: all points are binned again."""
        points, weights = self._points, self._weights
        if weights:
            points, weights = list(compress(points, weights)), list(filter(None, weights))
            place = 0 if value < self._low else len(points)
            points.insert(place, value)
            weights.insert(place, 1)
        else:
            points.append(value)
            points.sort()
        if not self._counts:
            self._set_range(value, value)
        elif value < self._low:
            self._set_range(value, self._high)
        else:
            self._set_range(self._low, value)
        self._counts, self._sums = [0] * self._bins, [0.0] * self._bins
        self._numerator, self._denominator = 0.0, 0
        start = 0
        for b, edge in enumerate((*self._edges, math.inf)):
            stop = bisect_left(points, edge, start)  # the points ascend: a bin is a slice
            if stop > start:
                total = sum(points[start:stop])
                count = stop - start
                if weights:
                    total = sum(map(mul, weights[start:stop], points[start:stop]))
                    count = sum(weights[start:stop])
                self._counts[b], self._sums[b] = count, total
                self._numerator += count * total
                self._denominator += count * count
                start = stop
        if weights or len(points) > self._memory:
            self._spread(points, weights)

    def _spread(self, points: list[float], weights: list[int]) -> None:
        """Replace the points by the means of their cells."""
        # One cell more than divides the range: the highest value is on the last edge.
        cells = CELLS_PER_BIN * self._bins + 1
        self._points, self._weights = [0.0] * cells, [0] * cells
        for point, weight in zip(points, weights or repeat(1), strict=False):
            cell = int((point - self._low) / self._cell_width)
            self._weights[cell] += weight
            # Means step by step: sums of a long history of huge values would overflow.
            self._points[cell] += (point - self._points[cell]) * (weight / self._weights[cell])


class Locality(Forecaster):
    """The value of the job that ended last."""

    __slots__ = ("_last",)
    kept = ("last",)

    def __init__(self) -> None:
        self._last: float | None = None

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._last = value

    def forecast(self) -> float | None:
        return self._last


class Exponential(Forecaster):
    """Brown's double exponential smoothing, with the forecast clipped to the range of the history.

    ``S`` smooths the values, ``D`` smooths ``S``, and both start at the first value. The forecast is ``a + b`` with ``a
    = 2S - D`` and ``b = alpha / (1 - alpha) (S - D)``. After a jump the line overshoots every past value, so the
    forecast is clipped to [min, max] of the history.
    """

    __slots__ = ("_alpha", "_double", "_high", "_low", "_single")
    kept = ("alpha", "single", "double", "low", "high")

    def __init__(self, alpha: float = 0.5) -> None:
        self._alpha = alpha
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
        line = self._line()
        if line > high:
            return high
        return self._low if line < self._low else line

    def _line(self) -> float:
        ahead = self._single - self._double
        return self._single + ahead + self._alpha / (1.0 - self._alpha) * ahead


class UnclippedExponential(Exponential):
    """The line without clipping, as published."""

    __slots__ = ()

    def forecast(self) -> float | None:
        return None if self._high < 0.0 else self._line()
