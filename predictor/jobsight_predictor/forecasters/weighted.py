"""The mean that the crowd of values pulls to itself [P 3.1, weighted; DEFINITIONS 2]."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .base import LARGEST, Floats, Forecaster, checked_series, refusal

CELLS_PER_BIN = 10

_WORTH_IT = 48  # values in a row above which arrays are faster than a loop


class Weighted(Forecaster):
    """`sum_b f_b S_b / sum_b f_b^2` over `bins` equal bins on [min, max] of the history.

    `f_b` counts and `S_b` sums the values of bin b. A value inside the range goes into its bin in O(log bins); one
    that widens the range has the remembered points binned anew. Exact while at most `memory` values were learned.
    When there are more, the remembered ones are merged into their means in `CELLS_PER_BIN` cells of each bin, so
    that the work and the memory stay bounded: still exact until the range widens, then off by what moves across an
    edge with its cell.
    """

    __slots__ = (
        "_bins",
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
        if bins < 1 or memory < 2 * CELLS_PER_BIN * bins:
            raise ValueError(
                f"bins is {bins}, memory {memory}: at least 1 bin, {2 * CELLS_PER_BIN} values for each, are needed"
            )
        self._bins = bins
        self._memory = memory
        self._points: list[float] = []
        self._weights: list[int] = []  # of the first points, those merged; the others weigh 1
        self._low = 0.0
        self._high = -1.0  # below the lowest: nothing learned yet
        self._edges: list[float] = []
        self._counts: list[int] = []
        self._sums: list[float] = []
        self._numerator = 0.0
        self._denominator = 0

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        points = self._points
        if len(points) >= self._memory:
            self._merge()
            points = self._points
        points.append(value)
        if self._low <= value <= self._high:
            b = bisect_right(self._edges, value)
            count = self._counts[b] + 1
            self._numerator += self._sums[b] + count * value
            self._denominator += 2 * count - 1
            self._counts[b] = count
            self._sums[b] += value
        else:
            if self._high < 0.0:
                self._low = self._high = value
            elif value > self._high:
                self._high = value
            else:
                self._low = value
            self._rebin()

    def forecast(self) -> float | None:
        if self._low == self._high:
            return self._low
        if not self._denominator:
            return None
        forecast = self._numerator / self._denominator
        # Beyond the range only by rounding, or when sums of values near the largest double overflow.
        return min(max(forecast, self._low), self._high)

    def state(self) -> dict[str, Any]:
        return {
            "bins": self._bins,
            "memory": self._memory,
            "low": self._low,
            "high": self._high,
            "points": list(self._points),
            "weights": list(self._weights),
            # These follow from the points but for the order of additions, and so for the last bit.
            "counts": list(self._counts),
            "sums": list(self._sums),
            "numerator": self._numerator,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(int(state["bins"]), int(state["memory"]))
        restored._low = float(state["low"])
        restored._high = float(state["high"])
        restored._points = [float(point) for point in state["points"]]
        restored._weights = [int(weight) for weight in state["weights"]]
        restored._set_edges()
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
        fresh.learn(numbers[0])
        start = 1
        for stop in (*widens.tolist(), len(series)):
            # values[start:stop] lie in the range of those before them: the bins stand still.
            if stop - start >= _WORTH_IT:
                forecasts[start:stop] = fresh._learn_within(series[start:stop], remember=stop < len(series))
            else:
                for i in range(start, stop):
                    forecasts[i] = fresh.forecast()
                    fresh.learn(numbers[i])
            if stop < len(series):
                forecasts[stop] = fresh.forecast()
                fresh.learn(numbers[stop])
            start = stop + 1
        return forecasts

    def _learn_within(self, values: Floats, *, remember: bool) -> Floats:
        """Learn values inside the range; the forecast before each of them.

        Points are remembered for the sake of a wider range only: not where none follows.
        """
        numbers = values.tolist() if remember else []
        while numbers:
            if len(self._points) >= self._memory:
                self._merge()
            room = self._memory - len(self._points)
            self._points += numbers[:room]
            del numbers[:room]
        if self._low == self._high:
            before = np.full(len(values), self._low)
        else:
            hits = np.searchsorted(self._edges, values, side="right")[:, None] == np.arange(self._bins)
            counts = np.cumsum(hits, axis=0) + np.array(self._counts)
            sums = np.cumsum(hits * values[:, None], axis=0) + np.array(self._sums)
            # In units of the largest: counts times sums of huge values would overflow.
            numerators = np.einsum("ij,ij->i", counts, sums / self._high) * self._high
            denominators = np.einsum("ij,ij->i", counts, counts)
            before = np.empty(len(values))
            before[0] = self.forecast()
            before[1:] = np.clip(numerators[:-1] / denominators[:-1], self._low, self._high)
            self._counts, self._sums = counts[-1].tolist(), sums[-1].tolist()
            self._numerator, self._denominator = float(numerators[-1]), int(denominators[-1])
            return before
        self._counts[-1] += len(values)
        self._sums[-1] += float(values.sum())
        self._numerator = self._counts[-1] * self._sums[-1]
        self._denominator = self._counts[-1] ** 2
        return before

    def _set_edges(self) -> None:
        step = (self._high - self._low) / self._bins
        # Inner edges only: whatever lies on or above the last of them is in the last bin, its upper edge included.
        self._edges = [k * step + self._low for k in range(1, self._bins)]

    def _rebin(self) -> None:
        self._set_edges()
        edges = self._edges
        counts = [0] * self._bins
        sums = [0.0] * self._bins
        merged = len(self._weights)
        for point, weight in zip(self._points, self._weights, strict=False):
            b = bisect_right(edges, point)
            counts[b] += weight
            sums[b] += weight * point
        for value in self._points[merged:] if merged else self._points:
            b = bisect_right(edges, value)
            counts[b] += 1
            sums[b] += value
        self._counts = counts
        self._sums = sums
        self._numerator = sum(count * total for count, total in zip(counts, sums, strict=True))
        self._denominator = sum(count * count for count in counts)

    def _merge(self) -> None:
        """Replace the points by their means in each cell; the bins stay as they are."""
        width = (self._high - self._low) / (self._bins * CELLS_PER_BIN)
        weights = self._weights + [1] * (len(self._points) - len(self._weights))
        cells: dict[int, list[float]] = {}
        for point, weight in zip(self._points, weights, strict=True):
            b = bisect_right(self._edges, point)
            within = int((point - self._low) / width) - b * CELLS_PER_BIN if width else 0
            cell = cells.setdefault(b * CELLS_PER_BIN + min(max(within, 0), CELLS_PER_BIN - 1), [0.0, 0.0])
            # A running mean: sums of a long history of huge values would overflow.
            cell[0] += weight
            cell[1] += (point - cell[1]) * (weight / cell[0])
        self._points = [mean for _, mean in cells.values()]
        self._weights = [int(weight) for weight, _ in cells.values()]
