"""The base of all forecasters: learns one series value by value, forecasts the next, can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar, Self

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


class Forecaster(ABC):
    """Forecasts the next value of one series, in the unit of the series."""

    __slots__ = ()

    kept: ClassVar[tuple[str, ...]]
    """The attributes that make up the state, without their underscore: numbers and lists of numbers."""

    @abstractmethod
    def learn(self, value: float) -> None:
        """Learn the next finished job's value. O(1) amortised, bounded memory.

        Raises:
            ValueError: the value is NaN, infinite, negative or above ``LARGEST``; nothing changes then.
        """

    @abstractmethod
    def forecast(self) -> float | None:
        """The next value; None before anything was learned. Changes nothing."""

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        values = {name: getattr(self, f"_{name}") for name in self.kept}
        return {name: list(value) if isinstance(value, list) else value for name, value in values.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The forecaster whose ``state()`` this was, exactly."""
        restored = cls.__new__(cls)
        for name in cls.kept:
            value = state[name]
            setattr(restored, f"_{name}", list(value) if isinstance(value, list) else value)
        return restored

    def replay(self, values: Floats) -> Floats:
        """Forecasts of each value from those before it, shape (n,), NaN where there was none.

        Goes on from what this forecaster has learned, and leaves it alone.

        Raises:
            ValueError: ``learn`` does not accept one of the values.
        """
        learner = deepcopy(self)
        forecasts = np.full(len(values), np.nan)
        for i, value in enumerate(np.asarray(values, dtype=np.float64).tolist()):
            forecast = learner.forecast()
            if forecast is not None:
                forecasts[i] = forecast
            learner.learn(value)
        return forecasts
