"""The forecast of one job, kept until the job has ended and the forecast can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Self

from .keys import JobKeys
from .prospect import Prospect
from .reserve import Basis
from .steps import ladder

Forecasts = list[float | None]


class PendingForecast:
    """Made when the job was submitted; ``value`` and ``bound`` are None if nothing was known then.

    ``forecasts`` are those of each candidate of each job group. ``known`` is the number of jobs of the site learned by
    then; ``basis`` that of the bound; ``by_groups`` and ``by_facts`` the bounds by the history of such jobs, and by
    their facts; ``stated_exceed`` what the distribution alone says of ``exceed_probability``. ``keys``, ``is_new`` (no
    job of its kind has ended), ``ranking``, ``exceed_probability``, ``is_limit`` (whether it is held to its request),
    ``of_time`` and ``prospect`` serve the immediate answer and are not kept.
    """

    __slots__ = (
        "_attempts", "basis", "bound", "by_facts", "by_groups", "exceed_probability", "features", "forecasts",
        "is_limit", "is_new", "keys", "known", "of_time", "probability", "prospect", "ranking", "stated_exceed",
        "value",
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
        self.exceed_probability: float | None = None
        self.stated_exceed: float | None = None
        self.by_groups: float | None = None
        self.by_facts: float | None = None
        self.is_limit = False
        self.of_time = False
        self._attempts: tuple[float, ...] | None = None
        self.prospect: Prospect | None = None
        self.probability = 0.0
        self.features: tuple[float, ...] = ()

    @property
    def attempts(self) -> tuple[float, ...]:
        """What to reserve at each attempt, the bound first; empty if nothing is known. Made when first asked for."""
        if self._attempts is None:
            self._attempts = () if self.bound is None else (self.bound,)
            if self.bound is not None and self.prospect is not None:
                request = None if self.keys is None or not self.is_limit else self.keys.request
                self._attempts = ladder(
                    self.prospect, self.bound, inf if request is None else request, of_time=self.of_time
                )
        return self._attempts

    def state(self) -> list[Any]:
        """What scoring needs, as JSON values."""
        return [
            self.forecasts, self.value, self.bound, self.probability, list(self.features), self.known, self.basis,
            [self.by_groups, self.by_facts], self.stated_exceed, self.attempts,
        ]  # fmt: skip

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Restores the forecast whose ``state()`` this was, as far as scoring needs it."""
        forecasts, value, bound, probability, features, *rest = state
        restored = cls(forecasts)
        if rest:  # release 0.1 kept none of these
            restored.known, restored.basis, *later = rest
            if later and isinstance(later[0], list):  # release 0.2 kept a number in its place
                restored.by_groups, restored.by_facts = later[0]
            if len(later) > 1:
                restored.stated_exceed = later[1]
            if len(later) > 2:
                restored._attempts = tuple(later[2])
        restored.value = value
        restored.bound = bound
        restored.probability = probability
        restored.features = tuple(features)
        return restored
