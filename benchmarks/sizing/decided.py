"""What Jobsight recommends in a replay of one resource: its evidence, the forecast and the decision, as in the server.

Only this module of the replays calls them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Question
from jobsight_server.accounting.runs import Failure
from jobsight_server.decision.evidence import SAME, Evidence, Resource, RunUse, Says
from jobsight_server.decision.rule import Limits, decide, readable
from jobsight_server.forecasts.request import LEAST, shape_of

FEWEST_SIMILAR, MARGIN = 5, 1.2


class Advised(NamedTuple):
    """Amounts for the whole job, None where nothing: the decision, the forecast, and ``MARGIN`` times the largest use.

    The last one needs ``FEWEST_SIMILAR`` similar runs.
    """

    decided: float | None
    forecast: float | None
    largest: float | None


class Ran(NamedTuple):
    """How a run ended; ``value`` as in the forecast, per processor for memory. With a ``failure`` it had no more."""

    value: float
    seconds: float
    submitted: float
    ended: float
    failure: Failure | None = None


class Recommender:
    """Recommends one resource to the jobs of a replay, each with a number of its own."""

    def __init__(self, resource: Resource, coverage: float = 0.95) -> None:
        self._resource: Resource = resource
        self._profile = Profile("", metric=resource, coverage=coverage)
        self._evidence: defaultdict[tuple[str | None, str | None], Evidence] = defaultdict(Evidence)
        self._asked: dict[int, tuple[Question, PendingForecast]] = {}

    def ask(self, number: int, question: Question, requested: float | None) -> Advised:
        """Recommend an amount to a job that is submitted and requests ``requested`` in all."""
        count, forecast = self.count(question), self._profile.forecast_job(question)
        self._asked[number] = question, forecast
        bound = None if forecast.bound is None else count * forecast.bound
        name = {"memory": "memory_bytes", "runtime": "walltime_s"}[self._resource]
        shape = shape_of(question, 0)._replace(**{name: requested or 0.0})
        limits = Limits(LEAST[self._resource], enforced=self._profile.are_limits)
        is_named = question.application is not None
        decision = decide(self._resource, self._of(question), shape, bound, limits, is_named=is_named)
        known = decision.similar.known
        largest = MARGIN * known.largest if known and is_named and decision.similar.exact >= FEWEST_SIMILAR else None
        reserved = bound if self._of(question).rows else None
        rounded = [None if amount is None else readable(self._resource, amount) for amount in (reserved, largest)]
        return Advised(decision.amount or decision.shorter, *rounded)

    def learn(self, number: int, ran: Ran, *, lower_bound: bool = False) -> None:
        """Learn the run of a job that has asked; ``lower_bound``: it needed more than its value."""
        question, forecast = self._asked.pop(number)
        self._profile.learn(question, ran.value, forecast, ran.seconds, lower_bound=lower_bound)
        shape, whole = shape_of(question, 0), self.count(question) * ran.value
        says: Says = "ran out" if ran.failure else "at least" if lower_bound else "exact"
        asked = shape.asked(self._resource)
        held, is_lowered = (whole, whole < SAME * asked) if ran.failure else (asked, False)
        self._of(question).add(RunUse(shape, ran.submitted, ran.ended, says, whole, held, is_lowered))

    def _of(self, question: Question) -> Evidence:
        return self._evidence[question.user, question.application]

    def count(self, question: Question) -> int:
        """Return how many times the value of a job its whole amount is."""
        return question.processors or 1 if self._resource == "memory" else 1
