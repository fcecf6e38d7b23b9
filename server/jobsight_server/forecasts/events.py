"""Events of jobs, in the order in which they are learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobsight_predictor.question import Question
from jobsight_server.forecasts.job import ForecastJob
from jobsight_server.forecasts.stored import SeriesKey


class Submitted(NamedTuple):
    """A job was submitted: its forecast at this moment is the one that counts."""

    job: ForecastJob
    metrics: Sequence[str]

    @property
    def series(self) -> Sequence[SeriesKey]:
        """The series whose stored answer the event changes."""
        return ()


class Finished(NamedTuple):
    """A job has ended and used this much of each metric; None: no value."""

    job: ForecastJob
    values: Mapping[str, float | None]

    @property
    def series(self) -> Sequence[SeriesKey]:
        """The series whose stored answer the event changes."""
        job = self.job
        return [SeriesKey(job.cluster, job.user, metric) for metric, value in self.values.items() if value is not None]


class RanOut(NamedTuple):
    """A job ran out of its reservation."""

    cluster: str
    metric: str
    question: Question
    reserved: float

    @property
    def series(self) -> Sequence[SeriesKey]:
        """The series whose stored answer the event changes."""
        return [SeriesKey(self.cluster, self.question.user or "", self.metric)]


Event = Submitted | Finished | RanOut
