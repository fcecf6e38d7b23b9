"""Forecasts of bandwidth without a profile: one figure for every job, and the means of a user's applications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobsight_predictor.question import Question
from jobsight_scheduler.prediction import Predictor

CONSTANT_BPS = 40e6
"""Default of the source ``constant``, per processor: four times the median of synthetic jobs; nine in ten use less."""


class ApplicationMeans(Predictor):
    """The mean of all finished jobs of the same user and application; None before there is one."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._sums: dict[tuple[str | None, str | None], tuple[int, float]] = {}

    def forecast(self, job: int) -> float | None:
        count, total = self._sums.get(self._key(job), (0, 0.0))
        return total / count if count else None

    def learn(self, job: int, value: float) -> None:
        count, total = self._sums.get(self._key(job), (0, 0.0))
        self._sums[self._key(job)] = count + 1, total + value

    def state(self) -> Any:
        return [(*key, *known) for key, known in self._sums.items()]

    def restore(self, state: Any) -> None:
        self._sums = {(user, application): (count, total) for user, application, count, total in state}

    def _key(self, job: int) -> tuple[str | None, str | None]:
        question = self._questions[job]
        return question.user, question.application
