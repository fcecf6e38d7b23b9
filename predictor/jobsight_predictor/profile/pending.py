"""The forecast of one job, kept until the job has ended and the forecast can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from .bound import Basis
from .keys import JobKeys

Forecasts = list[float | None]


class PendingForecast:
    """Made when the job was submitted; ``value`` and ``bound`` are None if nothing was known then.

    ``forecasts`` are those of each candidate of each job group. ``known`` is the number of jobs of the site learned by
    then; ``basis`` that of the bound, ``learned`` what it would be if requests were not cheaper.
    ``keys``, ``is_new`` (no job of its kind has ended), ``ranking`` and ``exceed_probability`` serve the
    immediate answer and are not kept.
    """

    __slots__ = (
        "basis", "bound", "exceed_probability", "features", "forecasts", "is_new", "keys", "known", "learned",
        "probability", "ranking", "value",
    )  # fmt: skip

    def __init__(self, forecasts: Forecasts, keys: JobKeys | None = None, known: int = 0, is_new: bool = False) -> None:
        self.forecasts = forecasts
        self.keys = keys
        self.known = known
        self.is_new = is_new
        self.basis: Basis | None = None
        self.ranking: list[tuple[float, float]] = []
        self.value: float | None = None
        self.bound: float | None = None
        self.learned: float | None = None
        self.exceed_probability: float | None = None
        self.probability = 0.0
        self.features: tuple[float, ...] = ()

    def state(self) -> list[Any]:
        """What scoring needs, as JSON values."""
        return [
            self.forecasts, self.value, self.bound, self.probability, list(self.features), self.known, self.basis,
            self.learned,
        ]  # fmt: skip

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Restores the forecast whose ``state()`` this was, as far as scoring needs it."""
        forecasts, value, bound, probability, features, *rest = state
        restored = cls(forecasts)
        if rest:  # release 0.1 kept none of these
            restored.known, restored.basis, *learned = rest
            restored.learned = learned[0] if learned else None
        restored.value = value
        restored.bound = bound
        restored.probability = probability
        restored.features = tuple(features)
        return restored
