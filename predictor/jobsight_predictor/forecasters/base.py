"""Base of all forecasters: learn one series value by value, forecast the next value, save and restore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from jobsight_predictor.arrays import Floats

# Sums of a thousand squares of counts times such values fit into a double; no measurement is as large.
LARGEST = 1e300


def refusal(value: float) -> ValueError:
    """Make the error for a value that is not a measurement."""
    return ValueError(f"cannot learn {value!r}: a measured value is finite, from 0 to {LARGEST:g}; drop and count it")


def checked(value: float) -> float:
    """Return ``value``.

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
    """Attributes of the state, without their underscore: numbers and lists of numbers."""

    @abstractmethod
    def learn(self, value: float) -> None:
        """Learn the next finished job's value. O(1) amortised, bounded memory.

        Raises:
            ValueError: the value is NaN, infinite, negative or above ``LARGEST``; nothing changes then.
        """

    @abstractmethod
    def forecast(self) -> float | None:
        """Forecast the next value; None before anything was learned. Changes nothing."""

    def state(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        values = {name: getattr(self, f"_{name}") for name in self.kept}
        return {name: list(value) if isinstance(value, list) else value for name, value in values.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore a forecaster exactly from its ``state()``."""
        restored = cls.__new__(cls)
        for name in cls.kept:
            value = state[name]
            setattr(restored, f"_{name}", list(value) if isinstance(value, list) else value)
        return restored

    def replay(self, values: Floats) -> Floats:
        """Forecast each value from those before it, shape (n,), NaN without a forecast.

        Continues from this forecaster's state without changing it.

        Raises:
            ValueError: ``learn`` does not accept one of the values.
        """
        import numpy as np  # a sixth of the start of commands that only answer

        learner = deepcopy(self)
        forecasts = np.full(len(values), np.nan)
        for i, value in enumerate(np.asarray(values, dtype=np.float64).tolist()):
            forecast = learner.forecast()
            if forecast is not None:
                forecasts[i] = forecast
            learner.learn(value)
        return forecasts
