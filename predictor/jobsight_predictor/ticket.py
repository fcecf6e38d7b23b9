"""What was said of one job, kept until it has ended and can be held against what the job used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from .templates import Key

Forecasts = list[float | None]


class Ticket:
    """Made when the job was submitted; `value` and `bound` are None when nothing was known then.

    `forecasts` holds what each candidate of each template said. `keys`, `ranking` and `exceeds` serve the answer of
    the moment and are not kept.
    """

    __slots__ = ("bound", "exceeds", "features", "forecasts", "keys", "probability", "ranking", "value")

    def __init__(self, forecasts: Forecasts, keys: Sequence[tuple[int, Key]] = ()) -> None:
        self.forecasts = forecasts
        self.keys = keys
        self.ranking: list[tuple[float, float]] = []
        self.value: float | None = None
        self.bound: float | None = None
        self.exceeds: float | None = None
        self.probability = 0.0
        self.features: tuple[float, ...] = ()

    def state(self) -> list[Any]:
        """What scoring needs, as values that JSON can carry."""
        return [self.forecasts, self.value, self.bound, self.probability, list(self.features)]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """The ticket whose `state()` this was, as far as scoring goes."""
        forecasts, value, bound, probability, features = state
        restored = cls(forecasts)
        restored.value = value
        restored.bound = bound
        restored.probability = probability
        restored.features = tuple(features)
        return restored
