"""Last instance: what the last job of the group used (explicit feedback; Yom-Tov and Aridor 2006, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from jobsight_predictor.templates import Question

from .base import SIMILAR, Estimator, Outcome, SystemState


class LastInstance(Estimator):
    """Asks for what the group's last finished job used; after a failure, for the request again."""

    name = "last-instance"

    def __init__(self, capacities: Sequence[float], fields: Sequence[str] = SIMILAR) -> None:
        super().__init__(capacities)
        self._key = attrgetter(*fields)
        self._last: dict[Any, float] = {}

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        return min(requested, self._last.get(self._key(job), requested))

    def learn(self, job: Question, requested: float, outcome: Outcome) -> None:
        if outcome.failed:
            self._last.pop(self._key(job), None)
        elif outcome.used is not None:
            self._last[self._key(job)] = outcome.used
