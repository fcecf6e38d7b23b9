"""Events of jobs, in the order in which they are learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobsight_predictor.question import Question
from jobsight_server.forecasts.job import ForecastJob
from jobsight_server.forecasts.stored import SeriesKey


class Observation(NamedTuple):
    """What is known of a job's need in one metric: its ``value``, or a lower bound of it."""

    value: float
    is_lower_bound: bool = False


class Submitted(NamedTuple):
    """A job was submitted: its forecast at this moment is the one that counts."""

    job: ForecastJob
    metrics: Sequence[str]

    @property
    def series(self) -> Sequence[SeriesKey]:
        """The series whose stored answer the event changes."""
        return ()


class Finished(NamedTuple):
    """A job has ended, and this is known of each metric; None: nothing."""

    job: ForecastJob
    observations: Mapping[str, Observation | None]

    @property
    def metrics(self) -> Sequence[str]:
        """Those in which its forecast is judged."""
        return tuple(self.observations)

    @property
    def series(self) -> Sequence[SeriesKey]:
        """The series whose stored answer the event changes."""
        job = self.job
        return [SeriesKey(job.cluster, job.user, metric) for metric, found in self.observations.items() if found]


class Reported(NamedTuple):
    """Somebody reported ``at`` this time (UTC) what a job needed."""

    cluster: str
    metric: str
    question: Question
    observation: Observation
    at: float

    @property
    def series(self) -> Sequence[SeriesKey]:
        """The series whose stored answer the event changes."""
        return [SeriesKey(self.cluster, self.question.user or "", self.metric)]


Event = Submitted | Finished | Reported
