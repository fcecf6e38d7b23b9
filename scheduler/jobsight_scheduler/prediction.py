"""Predictions of a job's run time or bandwidth when it is submitted, learned when it has ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobsight_predictor.forecasters import FIVE, FORECASTERS, Forecaster
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Question

SHORTEST_S = 1.0
"""Least run time forecast."""

SURE = 0.5
"""A forecast is doubtful if its probability of being within 20 % is at most this."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity to forecast. ``metric`` names the one that users request, if they do.

    ``cautious``: if a forecast is doubtful, expect the recommended reservation, if that is more.
    """

    unit: str
    metric: str = ""
    cautious: bool = False


RUN_TIME = Quantity("s", "runtime")
BANDWIDTH = Quantity("bit/s", cautious=True)
"""Per processor. A long job that uses ten times its forecast fills a link for a day, hence the caution."""


class Predictor(ABC):
    """Forecasts one quantity, by job index. It sees a job's question, and its value once the job has ended."""

    @abstractmethod
    def forecast(self, job: int) -> float | None:
        """The forecast for ``job``, which is submitted now; None if nothing is known."""

    @abstractmethod
    def learn(self, job: int, value: float) -> None:
        """``job`` has ended; ``value`` is what was measured."""

    @abstractmethod
    def state(self) -> Any:
        """Everything learned, as JSON values."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Restores the result of ``state``."""


class Stated(Predictor):
    """Values given in advance: users' statements or, as an oracle, the truth."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values

    def forecast(self, job: int) -> float:
        return self._values[job]

    def learn(self, job: int, value: float) -> None:
        """Nothing."""

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        """Nothing."""


class LastTwo(Predictor):
    """The mean of the user's last two jobs, in whole units (Tsafrir, Etsion and Feitelson 2007); none before there are
    two."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._last: dict[str | None, tuple[float, ...]] = {}

    def forecast(self, job: int) -> float | None:
        last = self._last.get(self._questions[job].user, ())
        return (last[0] + last[1]) // 2.0 if len(last) == 2 else None

    def learn(self, job: int, value: float) -> None:
        user = self._questions[job].user
        self._last[user] = (*self._last.get(user, ())[-1:], value)

    def state(self) -> Any:
        return list(self._last.items())

    def restore(self, state: Any) -> None:
        self._last = {user: tuple(last) for user, last in state}


class PerUser(Predictor):
    """One forecaster per user."""

    def __init__(self, questions: Sequence[Question], forecaster: type[Forecaster]) -> None:
        self._questions = questions
        self._forecaster = forecaster
        self._of: dict[str | None, Forecaster] = {}

    def forecast(self, job: int) -> float | None:
        of_user = self._of.get(self._questions[job].user)
        return None if of_user is None else of_user.forecast()

    def learn(self, job: int, value: float) -> None:
        user = self._questions[job].user
        if user not in self._of:
            self._of[user] = self._forecaster()
        self._of[user].learn(value)

    def state(self) -> Any:
        return [(user, forecaster.state()) for user, forecaster in self._of.items()]

    def restore(self, state: Any) -> None:
        self._of = {user: self._forecaster.from_state(known) for user, known in state}


class Jobsight(Predictor):
    """The profile that the server uses, with the default job groups."""

    def __init__(self, questions: Sequence[Question], quantity: Quantity) -> None:
        self._questions = questions
        self._quantity = quantity
        self._profile = Profile(quantity.unit, metric=quantity.metric)
        self._pending: dict[int, PendingForecast] = {}  # forecasts of jobs that have not ended

    def forecast(self, job: int) -> float | None:
        forecast = self._pending[job] = self._profile.forecast_job(self._questions[job])
        if (
            not self._quantity.cautious
            or forecast.probability > SURE
            or forecast.value is None
            or forecast.bound is None
        ):
            return forecast.value
        return max(forecast.value, forecast.bound)

    def learn(self, job: int, value: float) -> None:
        self._profile.learn(self._questions[job], value, self._pending.pop(job))

    def state(self) -> Any:
        pending = [(job, forecast.state()) for job, forecast in self._pending.items()]
        return {"profile": self._profile.state(), "pending": pending}

    def restore(self, state: Any) -> None:
        self._profile = Profile.from_state(self._quantity.unit, state["profile"], metric=self._quantity.metric)
        self._pending = {job: PendingForecast.from_state(forecast) for job, forecast in state["pending"]}


def _per_user(name: str) -> Callable[[Sequence[Question], Quantity], Predictor]:
    return lambda questions, _quantity: PerUser(questions, FORECASTERS[name])


PREDICTORS: dict[str, Callable[[Sequence[Question], Quantity], Predictor]] = {
    "last-two": lambda questions, _quantity: LastTwo(questions),
    **{name: _per_user(name) for name in FIVE},
    "jobsight": Jobsight,
}
"""The predictors that learn, by the names used in commands."""


def expected_run_s(predictor: Predictor, job: int, request_s: float) -> float:
    """The expected run time of ``job``: between a second and the request; the request if nothing is known."""
    forecast = predictor.forecast(job)
    return request_s if forecast is None else min(request_s, max(SHORTEST_S, forecast))
