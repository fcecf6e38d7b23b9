"""Brown's double exponential smoothing (docs/use/definitions.md, Exponential)."""

from __future__ import annotations

from jobsight_predictor.forecasters.base import LARGEST, Forecaster, refusal


class Exponential(Forecaster):
    """Level and trend, with the forecast clipped to the range of the history.

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
