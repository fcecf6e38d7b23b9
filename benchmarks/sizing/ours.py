"""Jobsight as a rule: its forecast alone, by the public ``Profile`` of ``jobsight_predictor``, and what it decides."""

from __future__ import annotations

from typing import NamedTuple

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Question
from jobsight_server.accounting.runs import Failure
from sizing.decided import Ran, Recommender
from sizing.protocols import Rule
from sizing.tasks import Task


class _Asked(NamedTuple):
    question: Question
    forecast: PendingForecast
    attempts: tuple[float, ...]


def _question(task: Task, *, by_size: bool) -> Question:
    return Question(
        user="workflow",
        application=task.process,
        processors=1,
        requested_memory_bytes=task.request,
        facts=(("input_bytes", task.size),) if by_size else (),
    )


class Recommended(Rule):
    """Jobsight's recommendation at a task's submission, with its ladder of attempts."""

    def __init__(self, coverage: float = 0.95, *, by_size: bool = False) -> None:
        """``by_size``: the size that a task reads is a fact of its question."""
        self.by_size = by_size
        self.profile = Profile("bytes", coverage=coverage, metric="memory")
        self.asked: dict[int, _Asked] = {}

    def ask(self, task: Task) -> float:
        question = _question(task, by_size=self.by_size)
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


class Decided(Rule):
    """What Jobsight decides at a task's submission, where a user submits a task with its preset until it succeeds."""

    def __init__(self, coverage: float = 0.95, *, by_size: bool = False) -> None:
        """``by_size``: the size that a task reads is a fact of its question."""
        self.by_size = by_size
        self._product = Recommender("memory", coverage)

    def ask(self, task: Task) -> float:
        question = _question(task, by_size=self.by_size)
        return self._product.ask(id(task), question, task.request).decided or task.request

    def again(self, task: Task, asked: float) -> float:
        """Return the preset after less, then the recommendation, or twice as much if that has failed."""
        more = self.ask(task)
        if asked < task.request:
            return task.request
        return more if more > asked else 2.0 * asked

    def fail(self, task: Task, asked: float) -> None:
        self._product.learn(id(task), _ran(task, asked, "memory"), lower_bound=True)

    def learn(self, task: Task, need: float) -> None:
        self._product.learn(id(task), _ran(task, need, None))


def _ran(task: Task, value: float, failure: Failure | None) -> Ran:
    return Ran(value, task.seconds, task.submitted, task.ended, failure)
