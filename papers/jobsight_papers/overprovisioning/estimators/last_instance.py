"""Last instance: the use of the group's last job (explicit feedback; Yom-Tov and Aridor 2006, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState, similar
from jobsight_predictor.question import Question


class LastInstance(Estimator):
    """Requests the use of the group's last finished job; after a failure, the job's request again."""

    name = "last-instance"

    def __init__(self, capacities: Sequence[float]) -> None:
        super().__init__(capacities)
        self._last: dict[Any, float | None] = {}  # None after a failure

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        last = self._last.get(similar(job))
        return requested if last is None else min(requested, last)

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        if outcome.failed:
            self._last[similar(job)] = None
        elif outcome.used is not None:
            self._last[similar(job)] = outcome.used
