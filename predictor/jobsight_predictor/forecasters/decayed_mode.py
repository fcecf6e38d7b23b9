"""Forecasts the value that would have been a good forecast for most of the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Self

from jobsight_predictor.forecasters.base import LARGEST, Forecaster, refusal

FADES = (0.8, 0.97, 0.995)  # shares of a value's weight left one job later in short, medium and long memory
SAME = 0.005  # share of the newer value; closer values are one place
PLACES = 12  # places kept; beyond that, the lightest gives its weight to its neighbour
SHIFT = 20.0  # factor on the past's weight in short memory after a shift of level
LEVEL = 0.1  # share of the weight below which a level is new

_ALIKE = 0.8  # within 20 %
_RESCALE = 1e90

# Columns of a row: place, then weight and score in short, medium and long memory.
_PLACE, _LONG_WEIGHT = itemgetter(0), itemgetter(3)


class DecayedMode(Forecaster):
    """Scores every place of the history by its accuracy as a forecast, weighted by age.

    The score of a place c is ``sum_i f^(age of i) max(0, 1 - |c - y_i| / y_i)``; the forecast is the best place. For a
    series that jumps between two levels, the mean lies where no value ever was and the median changes sides
    erratically, while this is the better level. Three decays f are kept: short, medium (used by ``forecast``) and long
    memory. A new place is scored on the weights of the known ones: O(PLACES) per value, however long the history.

    The short memory notices a shift of level at once: after two consecutive values within 20 % of each other, at a
    level with less than a tenth of the history, all earlier ones weigh ``SHIFT`` times less. A single spike does not
    cause that.
    """

    __slots__ = ("_last", "_n", "_rows", "_total", "_weights")
    kept = ("n", "last", "rows", "weights", "total")

    def __init__(self) -> None:
        self._n = 0
        self._last = 0.0
        # A row per place. The weight of a new value grows by 1/f instead of all others shrinking by f.
        self._rows: list[list[float]] = []
        self._weights = [1.0, 1.0, 1.0]
        self._total = 0.0  # weight of all places in the long memory

    @property
    def n(self) -> int:
        """Number of values learned."""
        return self._n

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        weights = self._weights
        short, medium, long = weights
        here: list[float] | None = None
        alike = 0.0  # weight within 20 %
        reach = 2.0 * value
        for row in self._rows:
            place = row[0]
            if place < reach:
                closeness = place / value
                if closeness > 1.0:
                    closeness = 2.0 - closeness
                row[4] += short * closeness
                row[5] += medium * closeness
                row[6] += long * closeness
                if closeness >= _ALIKE:
                    alike += row[3]
                    if closeness >= 1.0 - SAME:
                        here = row
            elif place == value:  # both zero
                row[4] += short
                row[5] += medium
                row[6] += long
                alike += row[3]
                here = row
        if here is None:
            here = self._settle(value)
        here[1] += short
        here[2] += medium
        here[3] += long
        fades = FADES
        if self._n > 2 and _ALIKE * value <= self._last <= (2.0 - _ALIKE) * value:
            last_weight = long * fades[2]  # the last value itself is not history yet
            if alike - last_weight < LEVEL * (self._total - last_weight):
                short = self._shift(value, here)
        self._total += long
        self._last = value
        self._n += 1
        weights[0] = short / fades[0]
        weights[1] = medium / fades[1]
        weights[2] = long / fades[2]
        if weights[0] > _RESCALE:
            self._rescale()

    def learn_all(self, values: Sequence[float]) -> None:
        """Learn these values in turn."""
        for value in values:
            self.learn(value)

    def forecast(self) -> float | None:
        return self.best()[1] if self._n else None

    def best(self) -> tuple[float, float, float]:
        """Return the best place in short, medium and long memory; needs a learned value."""
        rows = self._rows
        # A loop: three times as fast as three ``max`` with a key.
        short = medium = long = rows[0][0]
        most_short, most_medium, most_long = rows[0][4:]
        for place, _, _, _, in_short, in_medium, in_long in rows:
            if in_short > most_short:
                short, most_short = place, in_short
            if in_medium > most_medium:
                medium, most_medium = place, in_medium
            if in_long > most_long:
                long, most_long = place, in_long
        return short, medium, long

    def distribution(self) -> tuple[list[tuple[float, float]], float]:
        """Return (place, weight) pairs in medium memory, and the sum of weights in jobs: at most ``n``, and 33 by
        default."""
        newest = self._weights[1] * FADES[1]
        places = [(row[0], row[2] / newest) for row in self._rows]
        return places, sum([weight for _, weight in places])

    def state(self) -> dict[str, Any]:
        return super().state() | {"rows": [list(row) for row in self._rows]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls()
        restored._n, restored._last, restored._total = state["n"], state["last"], state["total"]
        restored._rows = [list(row) for row in state["rows"]]
        restored._weights = list(state["weights"])
        return restored

    def _shift(self, value: float, here: list[float]) -> float:
        """Count the value just learned ``SHIFT`` times in short memory; return its weight there."""
        short = self._weights[0] * SHIFT
        more = short - self._weights[0]
        for row in self._rows:
            place = row[0]
            if place < 2.0 * value:
                row[4] += more * (place / value if place <= value else 2.0 - place / value)
            elif place == value:
                row[4] += more
        here[1] += more
        return short

    def _settle(self, value: float) -> list[float]:
        """Add a place at ``value``, scored on the weights of the known ones."""
        rows = self._rows
        if len(rows) >= PLACES:
            self._leave()
        in_short, in_medium, in_long = self._weights
        for place, short, medium, long, _, _, _ in rows:
            if value < 2.0 * place:
                closeness = value / place if value <= place else 2.0 - value / place
                in_short += short * closeness
                in_medium += medium * closeness
                in_long += long * closeness
        row = [value, 0.0, 0.0, 0.0, in_short, in_medium, in_long]
        rows.append(row)
        return row

    def _leave(self) -> None:
        """Drop the lightest place, but not the highest; its nearest neighbour takes its weight.

        The highest stays: callers read the places as a distribution and reserve by its upper end.
        """
        rows = self._rows
        rows.sort(key=_PLACE)  # all are different
        gone = min(rows[:-1], key=_LONG_WEIGHT)
        i = rows.index(gone)
        below_is_nearer = i > 0 and gone[0] - rows[i - 1][0] <= rows[i + 1][0] - gone[0]
        neighbour = rows[i - 1] if below_is_nearer else rows[i + 1]
        for k in (1, 2, 3):
            neighbour[k] += gone[k]
        del rows[i]

    def _rescale(self) -> None:
        for row in self._rows:
            for k, weight in enumerate(self._weights, start=1):
                row[k] /= weight
                row[k + 3] /= weight
        self._total /= self._weights[2]
        self._weights = [1.0, 1.0, 1.0]
