"""Last instance: what the last job of the group used (explicit feedback; Yom-Tov and Aridor 2006, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from jobsight_predictor.question import Question

from .base import SIMILAR, Estimator, JobOutcome, SystemState, key_of, key_text


class LastInstance(Estimator):
    """Asks for what the group's last finished job used; after a failure, for the request again."""

    name = "last-instance"

    def __init__(self, capacities: Sequence[float], fields: Sequence[str] = SIMILAR) -> None:
        super().__init__(capacities)
        self._key = attrgetter(*fields)
        self._last: dict[Any, float | None] = {}  # None after a failure

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        last = self._last.get(self._key(job))
        return requested if last is None else min(requested, last)

    def learn(self, job: Question, requested: float, outcome: JobOutcome) -> None:
        if outcome.failed:
            self._last[self._key(job)] = None
        elif outcome.used is not None:
            self._last[self._key(job)] = outcome.used

    def keys(self, job: Question, requested: float) -> list[str]:
        return [key_text(self._key(job))]

    def state(self) -> dict[str, Any]:
        return {key_text(key): last for key, last in self._last.items()}

    def load(self, parts: Mapping[str, Any]) -> None:
        self._last |= {key_of(name): last for name, last in parts.items()}
