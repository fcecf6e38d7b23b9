"""One user's series of a metric: the published five, their parameters, the forecast, and its quality (PQM)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.forecasters.base import Forecaster, checked
from jobsight_predictor.forecasters.published import (
    CELLS_PER_BIN,
    Exponential,
    History,
    Locality,
    SlidingWindow,
    Weighted,
)

_POINTS = 500  # values; kept by the weighted mean of the usual bins


@dataclass(frozen=True, slots=True)
class FiveParameters:
    """``window`` of the sliding window, ``bins`` of the weighted mean, ``alpha`` of the exponential smoothing."""

    window: int = 5
    bins: int = 10
    alpha: float = 0.5


DEFAULT_PARAMETERS = FiveParameters()


def make_five(parameters: FiveParameters = DEFAULT_PARAMETERS) -> dict[str, Forecaster]:
    """Make the published five with these parameters, by name in their published order."""
    memory = max(_POINTS, CELLS_PER_BIN * parameters.bins)
    return {
        "history": History(),
        "sliding-window": SlidingWindow(parameters.window),
        "weighted": Weighted(parameters.bins, memory),
        "locality": Locality(),
        "exponential": Exponential(parameters.alpha),
    }


NEAR = 0.2  # share of the reference; values that differ by less are alike
RECENT = 20  # values in the recent PQM


def near(value: float, reference: float) -> bool:
    """Return whether a value is within 20 % of the reference; only 0 is near a reference of 0."""
    if reference == 0.0:
        return value == 0.0
    return abs(value - reference) < NEAR * reference


def pqm(values: Sequence[float]) -> float | None:
    """Return the share of values near the first one, itself included, 0..1; None below two values."""
    if len(values) < 2:
        return None
    return sum(near(value, values[0]) for value in values) / len(values)


def recent_pqm(values: Sequence[float]) -> float | None:
    """Return the share of the last 20 values near the last one, itself included, 0..1; None below two values."""
    if len(values) < 2:
        return None
    recent = values[-RECENT:]
    return sum(near(value, recent[-1]) for value in recent) / len(recent)


def accuracy(forecast: float, actual: float) -> float:
    """Return ``max(0, 1 - |forecast - actual| / actual)``, 0..1. For an actual 0: 1 if forecast exactly, else 0."""
    if actual == 0.0:
        return 1.0 if forecast == 0.0 else 0.0
    return max(0.0, 1.0 - abs(forecast - actual) / actual)


def within20(forecast: float, actual: float) -> bool:
    """Return whether the forecast is within 20 % of the actual; for an actual 0, whether it is exact."""
    return abs(forecast - actual) <= NEAR * actual


class Pqm:
    """PQM and recent PQM of a series as it grows; holds its first value, two counts and the last 20 values."""

    __slots__ = ("_alike", "_first", "_n", "_recent")

    def __init__(self) -> None:
        self._first = 0.0
        self._n = 0
        self._alike = 0
        self._recent: deque[float] = deque(maxlen=RECENT)

    def learn(self, value: float) -> None:
        """Learn the next value, a measurement."""
        if self._n == 0:
            self._first = value
        self._n += 1
        self._alike += near(value, self._first)
        self._recent.append(value)

    @property
    def n(self) -> int:
        """Number of values learned."""
        return self._n

    @property
    def last_values(self) -> tuple[float, ...]:
        """Return the last values, at most 20, oldest first."""
        return tuple(self._recent)

    def pqm(self) -> float | None:
        """Share of values near the first; None below two values."""
        return self._alike / self._n if self._n >= 2 else None

    def recent_pqm(self) -> float | None:
        """Share of the last 20 near the last; None below two values."""
        return recent_pqm(list(self._recent))

    def state(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {"first": self._first, "n": self._n, "alike": self._alike, "recent": list(self._recent)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore exactly from ``state()``."""
        restored = cls()
        restored._first = float(state["first"])
        restored._n = int(state["n"])
        restored._alike = int(state["alike"])
        restored._recent.extend(state["recent"])
        return restored


FADE = 0.8  # share of an error's weight left one job later in choosing the forecaster


@dataclass(frozen=True, slots=True)
class SeriesForecast:
    """The next job's expected use; without history ``value`` is None and ``reason`` says why."""

    value: float | None
    forecaster: str | None
    forecasts: dict[str, float | None]
    n: int
    pqm: float | None
    recent_pqm: float | None
    accuracies: dict[str, float | None]
    last_values: tuple[float, ...]
    reason: str | None


class Series:
    """The five forecasters over one series, each scored on every value before learning it."""

    def __init__(self) -> None:
        self._forecasters: dict[str, Forecaster] = make_five()
        self._quality = Pqm()
        self._accuracy_sums = dict.fromkeys(FIVE, 0.0)
        self._recent_errors = dict.fromkeys(FIVE, 0.0)

    @property
    def n(self) -> int:
        """Number of values learned."""
        return self._quality.n

    def learn(self, value: float) -> None:
        """Score every forecaster on the value, then let it learn it.

        Raises:
            ValueError: the value is not a measurement.
        """
        checked(value)
        accuracy_sums, recent_errors = self._accuracy_sums, self._recent_errors
        for name, forecaster in self._forecasters.items():
            forecast = forecaster.forecast()
            if forecast is not None:
                # 1 - ``accuracy``: the relative error, capped at 1, so that one large miss weighs no more than others.
                # Without its checks, which would take as long as everything else here.
                miss = abs(forecast - value)
                error = miss / value if miss < value else float(miss > 0.0)
                accuracy_sums[name] += 1.0 - error
                recent_errors[name] = FADE * recent_errors[name] + error
            forecaster.learn(value)
        self._quality.learn(value)

    def answer(self) -> SeriesForecast:
        """Forecast the next value, with its basis."""
        scored = max(0, self.n - 1)
        forecasts = {name: forecaster.forecast() for name, forecaster in self._forecasters.items()}
        chosen = self._chosen() if self.n else None
        return SeriesForecast(
            value=forecasts[chosen] if chosen is not None else None,
            forecaster=chosen,
            forecasts=forecasts,
            n=self.n,
            pqm=self._quality.pqm(),
            recent_pqm=self._quality.recent_pqm(),
            accuracies={name: total / scored if scored else None for name, total in self._accuracy_sums.items()},
            last_values=self._quality.last_values,
            reason=None if self.n else "no history: no finished job with a value yet",
        )

    def _chosen(self) -> str:
        """Choose the forecaster with the least recent error; among equals, the one that adapts fastest."""
        errors = self._recent_errors
        return min(("locality", *FIVE), key=errors.__getitem__)

    def state(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {
            "forecasters": {name: forecaster.state() for name, forecaster in self._forecasters.items()},
            "quality": self._quality.state(),
            "accuracy_sums": dict(self._accuracy_sums),
            "recent_errors": dict(self._recent_errors),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore a series exactly from its ``state()``."""
        restored = cls()
        restored._forecasters = {name: FORECASTERS[name].from_state(state["forecasters"][name]) for name in FIVE}
        restored._quality = Pqm.from_state(state["quality"])
        restored._accuracy_sums = {name: float(state["accuracy_sums"][name]) for name in FIVE}
        restored._recent_errors = {name: float(state["recent_errors"][name]) for name in FIVE}
        return restored
