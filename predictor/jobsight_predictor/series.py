"""What is kept about one user's values of one metric, and the answer from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .forecasters import FIVE, FORECASTERS, Forecaster, checked
from .forecasters.parameters import DEFAULT_PARAMETERS, FiveParameters, make_five
from .quality import Pqm

FADE = 0.8  # share; of an error that still counts one job later in choosing the forecaster


@dataclass(frozen=True, slots=True)
class SeriesForecast:
    """The next job's expected use; ``value`` is None, with a ``reason``, if nothing is known."""

    value: float | None
    forecaster: str | None
    forecasts: dict[str, float | None]
    n: int
    pqm: float | None
    recent_pqm: float | None
    accuracies: dict[str, float | None]
    scored: int
    last_values: tuple[float, ...]
    reason: str | None


class Series:
    """The five forecasters side by side over one series, each scored on every value before learning it."""

    def __init__(self, parameters: FiveParameters = DEFAULT_PARAMETERS) -> None:
        self._forecasters: dict[str, Forecaster] = make_five(parameters)
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
                # 1 - ``quality.accuracy``: the relative error, capped at 1, so that one wild miss weighs no more than a
                # plain one. Its checks would take as long as everything else here.
                miss = abs(forecast - value)
                error = miss / value if miss < value else float(miss > 0.0)
                accuracy_sums[name] += 1.0 - error
                recent_errors[name] = FADE * recent_errors[name] + error
            forecaster.learn(value)
        self._quality.learn(value)

    def answer(self) -> SeriesForecast:
        """The forecast of the next value, and its basis."""
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
            scored=scored,
            last_values=self._quality.last_values,
            reason=None if self.n else "no history: no finished job with a value yet",
        )

    def _chosen(self) -> str:
        """The forecaster of least recent error; among equals, the one that adapts fastest."""
        errors = self._recent_errors
        return min(("locality", *FIVE), key=errors.__getitem__)

    @property
    def parameters(self) -> FiveParameters:
        """The parameters of its forecasters."""
        states = {name: forecaster.state() for name, forecaster in self._forecasters.items()}
        return FiveParameters(
            states["sliding-window"]["window"], states["weighted"]["bins"], states["exponential"]["alpha"]
        )

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        return {
            "forecasters": {name: forecaster.state() for name, forecaster in self._forecasters.items()},
            "quality": self._quality.state(),
            "accuracy_sums": dict(self._accuracy_sums),
            "recent_errors": dict(self._recent_errors),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The series whose ``state()`` this was, exactly."""
        restored = cls()
        restored._forecasters = {name: FORECASTERS[name].from_state(state["forecasters"][name]) for name in FIVE}
        restored._quality = Pqm.from_state(state["quality"])
        restored._accuracy_sums = {name: float(state["accuracy_sums"][name]) for name in FIVE}
        restored._recent_errors = {name: float(state["recent_errors"][name]) for name in FIVE}
        return restored
