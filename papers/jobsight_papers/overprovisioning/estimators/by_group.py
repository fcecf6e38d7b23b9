"""Jobsight's own estimator, as the server asks it (``jobsight_predictor.hierarchical``)."""

from __future__ import annotations

from collections.abc import Sequence

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState
from jobsight_predictor.hierarchical import Hierarchical
from jobsight_predictor.question import Question


class ByGroup(Estimator):
    """The smallest capacity that is probably enough for the job's group and wider groups."""

    name = "jobsight"

    def __init__(self, capacities: Sequence[float]) -> None:
        super().__init__(capacities)
        self._groups = Hierarchical(capacities)

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        return self._groups.estimate(job, requested)

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        self._groups.learn(job, outcome.given, outcome.failed, outcome.used)
