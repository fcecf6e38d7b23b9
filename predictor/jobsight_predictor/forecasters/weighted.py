"""A mean that leans towards the most frequent values (docs/use/definitions.md, Weighted)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import compress
from operator import mul
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal

CELLS_PER_BIN = 20  # cells; of the grid that represents a history too long to remember

_WORTH_IT = 64  # values in a row; arrays are faster than a loop from here on


class Weighted(Forecaster):
    """``sum_b f_b S_b / sum_b f_b^2`` over ``bins`` equal bins on [min, max] of the history.

    ``f_b`` counts and ``S_b`` sums the values of bin b. A value inside the range goes into its bin in O(log bins); one
    that widens the range has the remembered points binned again. Exact while at most ``memory`` values were learned:
    each is a point. From then on the points are the means of a grid of ``CELLS_PER_BIN`` cells a bin, so that the work
    and the memory stay bounded: still exact until the range widens, then off by what moves across an edge with its
    cell.
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

    def __init__(self, bins: int = 10, memory: int = 500) -> None:
        if bins < 1 or memory < CELLS_PER_BIN * bins:
            raise ValueError(
                f"bins is {bins}, memory {memory}: at least 1 bin, {CELLS_PER_BIN} values for each, are needed"
            )
        self._bins = bins
        self._memory = memory
        self._points: list[float] = []
        self._weights: list[int] = []  # of the cells, whose means the points then are; empty: each point is a value
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

    def state(self) -> dict[str, Any]:
        return {
            "bins": self._bins,
            "memory": self._memory,
            "low": self._low,
            "high": self._high,
            "points": list(self._points),
            "weights": list(self._weights),
            # These follow from the points except for the order of additions, hence the last bit.
            "counts": list(self._counts),
            "sums": list(self._sums),
            "numerator": self._numerator,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(int(state["bins"]), int(state["memory"]))
        restored._points = [float(point) for point in state["points"]]
        restored._weights = [int(weight) for weight in state["weights"]]
        restored._set_range(float(state["low"]), float(state["high"]))
        restored._counts = [int(count) for count in state["counts"]]
        restored._sums = [float(total) for total in state["sums"]]
        restored._numerator = float(state["numerator"])
        restored._denominator = sum(count * count for count in restored._counts)
        return restored

    def fresh(self) -> Self:
        return type(self)(self._bins, self._memory)

    def replay(self, values: Floats) -> Floats:
        series = checked_series(values)
        forecasts = np.full(len(series), np.nan)
        if not len(series):
            return forecasts
        fresh = self.fresh()
        highs, lows = np.maximum.accumulate(series), np.minimum.accumulate(series)
        widens = np.flatnonzero((highs[1:] > highs[:-1]) | (lows[1:] < lows[:-1])) + 1
        numbers = series.tolist()
        learn, forecast = fresh.learn, fresh.forecast
        learn(numbers[0])
        start = 1
        for stop in (*widens.tolist(), len(series)):
            # values[start:stop] lie in the range of those before them: the bins stand still.
            if stop - start >= _WORTH_IT:
                forecasts[start:stop] = fresh._learn_within(series[start:stop], remember=stop < len(series))
            else:
                for i in range(start, stop):
                    forecasts[i] = forecast()
                    learn(numbers[i])
            if stop < len(series):
                forecasts[stop] = forecast()
                learn(numbers[stop])
            start = stop + 1
        return forecasts

    def _learn_within(self, values: Floats, *, remember: bool) -> Floats:
        """Learn values inside the range; the forecast before each of them.

        Points are remembered only for a wider range, and not if none follows.
        """
        if remember:
            self._remember(values)
        # A row per bin, a column per value.
        hits = np.searchsorted(self._edges, values, side="right") == np.arange(self._bins)[:, None]
        counts = np.cumsum(hits, axis=1)
        counts += np.array(self._counts)[:, None]
        # In units of the largest: counts times sums of huge values would overflow.
        scale = self._high or 1.0
        sums = np.cumsum(hits * (values / scale), axis=1)
        sums += (np.array(self._sums) / scale)[:, None]
        numerators = np.einsum("ij,ij->j", counts, sums)
        denominators = np.einsum("ij,ij->j", counts, counts)
        before = np.empty(len(values))
        before[0] = self.forecast()
        before[1:] = np.clip(numerators[:-1] / denominators[:-1] * scale, self._low, self._high)
        self._counts, self._sums = counts[:, -1].tolist(), (sums[:, -1] * scale).tolist()
        self._numerator, self._denominator = float(numerators[-1]) * scale, int(denominators[-1])
        return before

    def _remember(self, values: Floats) -> None:
        """Add values inside the range to the points."""
        if not self._weights:
            room = self._memory + 1 - len(self._points)
            self._points += values[:room].tolist()
            values = values[room:]
            if len(self._points) > self._memory:
                self._spread(self._points, [])
        if self._weights and len(values):
            self._add(values, np.ones(len(values)))

    def _set_range(self, low: float, high: float) -> None:
        self._low, self._high = low, high
        step = (high - low) / self._bins
        # Inner edges only: whatever lies on or above the last of them is in the last bin, its upper edge included.
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
            stop = bisect_left(points, edge, start)  # the points ascend: what is in a bin is a slice
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
        """The points become the means of the cells that they lie in."""
        # One cell more than divides the range: the highest value is on the far edge of the last.
        cells = CELLS_PER_BIN * self._bins + 1
        self._points, self._weights = [0.0] * cells, [0] * cells
        self._add(np.array(points), np.array(weights, dtype=float) if weights else np.ones(len(points)))

    def _add(self, points: Floats, weights: Floats) -> None:
        """Move the means of the cells towards points in them."""
        cells = ((points - self._low) / self._cell_width).astype(np.intp)
        totals = self._weights + np.bincount(cells, weights, len(self._weights))
        means = np.array(self._points)
        # Shares of the way: sums of a long history of huge values would overflow.
        means += np.bincount(cells, (points - means[cells]) * (weights / totals[cells]), len(means))
        self._points, self._weights = means.tolist(), totals.astype(np.int64).tolist()
