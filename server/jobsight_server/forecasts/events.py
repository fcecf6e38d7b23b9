"""What happens to jobs, in the form in which it is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jobsight_predictor.question import Question
from jobsight_server.accounting.runs import FAILED_METRIC
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


Observations = dict[str, Observation | None]


def observed(job: ForecastJob, measured: Mapping[str, Observation | None], *, is_late: bool = False) -> Observations:
    """By metric; None where nothing is known.

    A run that ran out of something needed more than it had been given, or had used by then, whichever is more. That is
    known without any measurement: when one arrives late (``is_late``), it has been learned.
    """
    found = dict(measured)
    if job.failure is None:
        return found
    metric = FAILED_METRIC[job.failure]
    given = (job.given_memory_bytes if metric == "memory" else job.given_time_s) or 0.0
    if is_late:
        if metric in found and given:
            found[metric] = None
        return found
    known = found.get(metric)
    used = known.value if known is not None else 0.0
    # A run time is known exactly, and may be less than what was given: a scheduler kills at its convenience.
    needed = max(used, given) if metric == "memory" else used or given
    found[metric] = Observation(needed, True) if needed else None
    return found
