"""Whom a placement believes about the bandwidth of a job: asked when it is submitted, taught when it has ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobsight_predictor.forecasters import Forecaster
from jobsight_predictor.profile import Profile
from jobsight_predictor.templates import Question
from jobsight_predictor.ticket import Ticket

SURE = 0.5


@dataclass(frozen=True, slots=True)
class Measured:
    """Bits per second per processor of a finished job: on average, and in the best of the intervals of its life.

    Others on its links can only have made them smaller than they would have been alone.
    """

    mean_bps: float
    peak_bps: float


class Bandwidth(ABC):
    """Bits per second per processor of jobs, by job index."""

    @abstractmethod
    def expected(self, job: int) -> float:
        """What the job, submitted now, is expected to use."""

    @abstractmethod
    def learn(self, job: int, measured: Measured) -> None:
        """The job is over."""

    @abstractmethod
    def state(self) -> Any:
        """All that was learned, as values that JSON can carry."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Takes over what ``state`` gave."""


class Stated(Bandwidth):
    """Numbers given beforehand: what users state, or, for an oracle, what the jobs will really use."""

    def __init__(self, bandwidth_bps: Sequence[float]) -> None:
        self._bandwidth_bps = bandwidth_bps

    def expected(self, job: int) -> float:
        return self._bandwidth_bps[job]

    def learn(self, job: int, measured: Measured) -> None:
        """Nothing."""

    def state(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        """Nothing."""


class Predicted(Bandwidth):
    """The profile that the server asks, in the loop: asked job by job, taught at job ends.

    What it expects is believed where that is more likely than not to be within 20 %; else what it says to reserve,
    if that is more. One long job that is thought to be a tenth of what it is fills a link for a day. Before anything
    is known, users are believed.

    It learns the best interval of a job's life, which tells most of what the job would use alone; ``by_mean``, the
    mean over its life, which is less the more others slowed it down.
    """

    def __init__(self, questions: Sequence[Question], stated_bps: Sequence[float], by_mean: bool = False) -> None:
        self._questions = questions
        self._stated_bps = stated_bps
        self._by_mean = by_mean
        self._profile = Profile("bit/s")
        self._tickets: dict[int, Ticket] = {}  # what was said of jobs that have not ended

    def expected(self, job: int) -> float:
        ticket = self._tickets[job] = self._profile.look(self._questions[job])
        if ticket.value is None:
            return self._stated_bps[job]
        if ticket.probability > SURE or ticket.bound is None:
            return ticket.value
        return max(ticket.value, ticket.bound)

    def learn(self, job: int, measured: Measured) -> None:
        value = measured.mean_bps if self._by_mean else measured.peak_bps
        self._profile.learn(self._questions[job], value, self._tickets.pop(job))

    def state(self) -> Any:
        tickets = [(job, ticket.state()) for job, ticket in self._tickets.items()]
        return {"profile": self._profile.state(), "tickets": tickets}

    def restore(self, state: Any) -> None:
        self._profile = Profile.from_state("bit/s", state["profile"])
        self._tickets = {job: Ticket.from_state(ticket) for job, ticket in state["tickets"]}


class PerUser(Bandwidth):
    """One forecaster of the predictor wing per user; what the user states before there is a forecast."""

    def __init__(
        self,
        users: Sequence[str | None],
        stated_bps: Sequence[float],
        forecaster: type[Forecaster],
        by_mean: bool = False,
    ) -> None:
        self._users = users
        self._by_mean = by_mean
        self._stated_bps = stated_bps
        self._forecaster = forecaster
        self._of: dict[str | None, Forecaster] = {}

    def expected(self, job: int) -> float:
        of_user = self._of.get(self._users[job])
        forecast = None if of_user is None else of_user.forecast()
        return self._stated_bps[job] if forecast is None else forecast

    def learn(self, job: int, measured: Measured) -> None:
        user = self._users[job]
        if user not in self._of:
            self._of[user] = self._forecaster()
        self._of[user].learn(measured.mean_bps if self._by_mean else measured.peak_bps)

    def state(self) -> Any:
        return [(user, forecaster.state()) for user, forecaster in self._of.items()]

    def restore(self, state: Any) -> None:
        self._of = {user: self._forecaster.from_state(known) for user, known in state}
