"""Jobsight as a rule: the public ``Profile`` of ``jobsight_predictor``, used as in the server."""

from __future__ import annotations

from typing import NamedTuple

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Objective, Question

from .protocols import Rule
from .tasks import Task


class _Asked(NamedTuple):
    question: Question
    forecast: PendingForecast
    attempts: tuple[float, ...]


class Jobsight(Rule):
    """Jobsight's recommendation at a task's submission, with its ladder of attempts."""

    def __init__(self, objective: Objective = "coverage", coverage: float = 0.95, *, by_size: bool = False) -> None:
        """``by_size``: the size that a task reads is a fact of its question."""
        self.by_size = by_size
        self.profile = Profile("bytes", coverage=coverage, metric="memory", objective=objective)
        self.asked: dict[int, _Asked] = {}

    def ask(self, task: Task) -> float:
        question = Question(
            user="workflow",
            application=task.process,
            processors=1,
            requested_memory_bytes=task.request,
            facts=(("input_bytes", task.size),) if self.by_size else (),
        )
        attempts = self.profile.answer(question).attempts
        self.asked[id(task)] = _Asked(question, self.profile.forecast_job(question), attempts)
        return attempts[0] if attempts else task.request

    def again(self, task: Task, asked: float) -> float:
        """Return the next rung of the ladder; after the last, twice as much, but the request before exceeding it."""
        more = [amount for amount in self.asked[id(task)].attempts if amount > asked]
        return more[0] if more else min(2.0 * asked, task.request) if asked < task.request else 2.0 * asked

    def fail(self, task: Task, asked: float) -> None:
        question, forecast, _ = self.asked[id(task)]
        self.profile.learn(question, asked, forecast, task.seconds, lower_bound=True)

    def learn(self, task: Task, need: float) -> None:
        if id(task) not in self.asked:  # history, without a request
            self.ask(task)
        question, forecast, _ = self.asked.pop(id(task))
        self.profile.learn(question, need, forecast, task.seconds)
