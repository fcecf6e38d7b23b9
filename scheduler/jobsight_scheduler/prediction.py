"""Predictions of a job's run time or bandwidth when it is submitted, learned when it has ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from jobsight_predictor.forecasters import FIVE, FORECASTERS, Forecaster
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Question

SHORTEST_S = 1.0
"""Least run time forecast."""


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
    """Run times by the profile that the server uses, with the default job groups."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._profile = Profile("s", metric="runtime")
        self._pending: dict[int, PendingForecast] = {}  # forecasts of jobs that have not ended

    def forecast(self, job: int) -> float | None:
        forecast = self._pending[job] = self._profile.forecast_job(self._questions[job])
        return forecast.value

    def learn(self, job: int, value: float) -> None:
        self._profile.learn(self._questions[job], value, self._pending.pop(job))

    def state(self) -> Any:
        pending = [(job, forecast.state()) for job, forecast in self._pending.items()]
        return {"profile": self._profile.state(), "pending": pending}

    def restore(self, state: Any) -> None:
        self._profile = Profile.from_state("s", state["profile"], metric="runtime")
        self._pending = {job: PendingForecast.from_state(forecast) for job, forecast in state["pending"]}


def _per_user(name: str) -> Callable[[Sequence[Question]], Predictor]:
    return lambda questions: PerUser(questions, FORECASTERS[name])


PREDICTORS: dict[str, Callable[[Sequence[Question]], Predictor]] = {
    "last-two": LastTwo,
    **{name: _per_user(name) for name in FIVE},
    "jobsight": Jobsight,
}
"""The predictors of run times that learn, by the names used in commands."""


def expected_run_s(predictor: Predictor, job: int, request_s: float) -> float:
    """The expected run time of ``job``: between a second and the request; the request if nothing is known."""
    forecast = predictor.forecast(job)
    return request_s if forecast is None else min(request_s, max(SHORTEST_S, forecast))
