"""The base of all forecasters: learns one series value by value, forecasts the next, can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Sums of a thousand squares of counts times such values still fit into a double; no measurement comes near.
LARGEST = 1e300


def refusal(value: float) -> ValueError:
    """The error that ``learn`` raises for a value that is not a measurement."""
    return ValueError(f"cannot learn {value!r}: a measured value is finite, from 0 to {LARGEST:g}; drop and count it")


def checked(value: float) -> float:
    """``value`` itself.

    Raises:
        ValueError: it is NaN, infinite, negative or above ``LARGEST``.
    """
    if not 0.0 <= value <= LARGEST:
        raise refusal(value)
    return value


def checked_series(values: Floats) -> Floats:
    """The series as float64, shape (n,).

    Raises:
        ValueError: ``learn`` does not accept one of the values; the first is named.
    """
    series = np.asarray(values, dtype=np.float64)
    good = (series >= 0.0) & (series <= LARGEST)
    if not good.all():
        raise refusal(float(series[np.argmin(good)]))
    return series


class Forecaster(ABC):
    """Forecasts the next value of one series, in the unit of the series."""

    __slots__ = ()

    @abstractmethod
    def learn(self, value: float) -> None:
        """Learn the next finished job's value. O(1) amortised, bounded memory.

        Raises:
            ValueError: the value is NaN, infinite, negative or above ``LARGEST``; nothing changes then.
        """

    @abstractmethod
    def forecast(self) -> float | None:
        """The next value; None before anything was learned. Changes nothing."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The forecaster whose ``state()`` this was, exactly."""

    def replay(self, values: Floats) -> Floats:
        """Forecasts of each value from those before it, shape (n,), NaN where there was none.

        Starts from an empty history, with the parameters of this forecaster, which it leaves alone. An algorithm
        may override it with a faster form; the contract suite checks that both agree.
        """
        series = checked_series(values)
        fresh = self.fresh()
        forecasts = np.full(len(series), np.nan)
        for i, value in enumerate(series.tolist()):
            forecast = fresh.forecast()
            if forecast is not None:
                forecasts[i] = forecast
            fresh.learn(value)
        return forecasts

    @abstractmethod
    def fresh(self) -> Self:
        """A forecaster of the same parameters that has learned nothing."""
