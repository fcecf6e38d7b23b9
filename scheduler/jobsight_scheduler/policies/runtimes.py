"""Forecasts of run times, asked when a job is submitted and taught when it has ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from jobsight_predictor.forecasters import FIVE, FORECASTERS, Forecaster
from jobsight_predictor.profile import Profile
from jobsight_predictor.templates import Question
from jobsight_predictor.ticket import Ticket

SHORTEST_S = 1.0


class RunTimes(ABC):
    """Knows jobs by their questions only, and the run times of those that have ended."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = questions

    def expected(self, job: int, request_s: float) -> float:
        """Forecast for a job that is submitted now: between a second and the request; the request if none is known."""
        forecast = self.forecast(job)
        return request_s if forecast is None else min(request_s, max(SHORTEST_S, forecast))

    @abstractmethod
    def forecast(self, job: int) -> float | None:
        """What the job is expected to run, in seconds; None when nothing is known."""

    @abstractmethod
    def learn(self, job: int, run_s: float) -> None:
        """The job is over and ran for so long."""

    @abstractmethod
    def state(self) -> Any:
        """All that was learned, as values that JSON can carry."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Takes over what ``state`` gave."""


class LastTwo(RunTimes):
    """The mean of the user's last two jobs (Tsafrir, Etsion and Feitelson 2007); nothing before there are two."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(questions)
        self._last: dict[str | None, tuple[float, ...]] = {}

    def forecast(self, job: int) -> float | None:
        last = self._last.get(self.questions[job].user, ())
        return (last[0] + last[1]) / 2.0 if len(last) == 2 else None

    def learn(self, job: int, run_s: float) -> None:
        user = self.questions[job].user
        self._last[user] = (*self._last.get(user, ())[-1:], run_s)

    def state(self) -> Any:
        return list(self._last.items())

    def restore(self, state: Any) -> None:
        self._last = {user: tuple(last) for user, last in state}


class PerUser(RunTimes):
    """One forecaster of the predictor wing per user."""

    def __init__(self, questions: Sequence[Question], forecaster: type[Forecaster]) -> None:
        super().__init__(questions)
        self._forecaster = forecaster
        self._of: dict[str | None, Forecaster] = {}

    def forecast(self, job: int) -> float | None:
        of_user = self._of.get(self.questions[job].user)
        return None if of_user is None else of_user.forecast()

    def learn(self, job: int, run_s: float) -> None:
        user = self.questions[job].user
        if user not in self._of:
            self._of[user] = self._forecaster()
        self._of[user].learn(run_s)

    def state(self) -> Any:
        return [(user, forecaster.state()) for user, forecaster in self._of.items()]

    def restore(self, state: Any) -> None:
        self._of = {user: self._forecaster.from_state(known) for user, known in state}


class Jobsight(RunTimes):
    """The profile that the server asks: groups of jobs alike, and whom to believe."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(questions)
        self._profile = Profile("s", metric="runtime")
        self._tickets: dict[int, Ticket] = {}  # what was said of jobs that have not ended

    def forecast(self, job: int) -> float | None:
        ticket = self._tickets[job] = self._profile.look(self.questions[job])
        return ticket.value

    def learn(self, job: int, run_s: float) -> None:
        self._profile.learn(self.questions[job], run_s, self._tickets.pop(job))

    def state(self) -> Any:
        tickets = [(job, ticket.state()) for job, ticket in self._tickets.items()]
        return {"profile": self._profile.state(), "tickets": tickets}

    def restore(self, state: Any) -> None:
        self._profile = Profile.from_state("s", state["profile"], metric="runtime")
        self._tickets = {job: Ticket.from_state(ticket) for job, ticket in state["tickets"]}


def _per_user(name: str) -> Callable[[Sequence[Question]], RunTimes]:
    return lambda questions: PerUser(questions, FORECASTERS[name])


PREDICTORS: dict[str, Callable[[Sequence[Question]], RunTimes]] = {
    "last-two": LastTwo,
    **{name: _per_user(name) for name in FIVE},
    "jobsight": Jobsight,
}


def predictions(run_times: RunTimes | None) -> dict[str, Any]:
    """What a policy's state holds of its forecasts."""
    return {} if run_times is None else {"run_times": run_times.state()}
