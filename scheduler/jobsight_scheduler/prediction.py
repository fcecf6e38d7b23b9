"""Predictions of a job's run time or bandwidth, at its submission, learned from ended jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.forecasters.base import Forecaster
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Question

SHORTEST_S = 1.0
"""Least run time forecast."""


class Predictor(ABC):
    """Forecasts one quantity, by job index. It sees a job's question, and its value once the job has ended."""

    @abstractmethod
    def forecast(self, job: int) -> float | None:
        """Return the forecast for ``job``, submitted now; None without any."""

    @abstractmethod
    def learn(self, job: int, value: float) -> None:
        """Learn the measured ``value`` of ``job``, which has ended."""


class Stated(Predictor):
    """Values given in advance: users' statements or, as an oracle, the truth."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values

    def forecast(self, job: int) -> float:
        return self._values[job]

    def learn(self, job: int, value: float) -> None:
        """Do nothing."""


class LastTwo(Predictor):
    """The mean of the user's last two jobs, in whole units (Tsafrir, Etsion and Feitelson 2007); None before."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._last: dict[str | None, tuple[float, ...]] = {}

    def forecast(self, job: int) -> float | None:
        last = self._last.get(self._questions[job].user, ())
        return (last[0] + last[1]) // 2.0 if len(last) == 2 else None

    def learn(self, job: int, value: float) -> None:
        user = self._questions[job].user
        self._last[user] = (*self._last.get(user, ())[-1:], value)


class PerUser(Predictor):
    """One forecaster per user."""

    def __init__(self, questions: Sequence[Question], forecaster: type[Forecaster]) -> None:
        self._questions = questions
        self._of: defaultdict[str | None, Forecaster] = defaultdict(forecaster)

    def forecast(self, job: int) -> float | None:
        of_user = self._of.get(self._questions[job].user)
        return None if of_user is None else of_user.forecast()

    def learn(self, job: int, value: float) -> None:
        self._of[self._questions[job].user].learn(value)


class Jobsight(Predictor):
    """Run times by the server's own profile, with the default job groups."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = questions
        self._profile = Profile("s", metric="runtime")
        self._pending: dict[int, PendingForecast] = {}  # forecasts of jobs that have not ended

    def forecast(self, job: int) -> float | None:
        forecast = self._pending[job] = self._profile.forecast_job(self._questions[job])
        return forecast.value

    def learn(self, job: int, value: float) -> None:
        self._profile.learn(self._questions[job], value, self._pending.pop(job))


PREDICTORS: dict[str, Callable[[Sequence[Question]], Predictor]] = {
    "last-two": LastTwo,
    **{name: partial(PerUser, forecaster=FORECASTERS[name]) for name in FIVE},
    "jobsight": Jobsight,
}
"""The run-time predictors that learn, by the names used in commands."""


def expected_run_s(forecast: float | None, request_s: float) -> float:
    """Return the expected run time of a job: between a second and the request; the request without a forecast."""
    return request_s if forecast is None else min(request_s, max(SHORTEST_S, forecast))
