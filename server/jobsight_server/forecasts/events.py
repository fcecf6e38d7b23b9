"""Events of jobs, in the order in which they are learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.templates import Question
from jobsight_server.forecasts.job import Job
from jobsight_server.forecasts.stored import Key

_FORECAST_FOR = ("running", "ended")


class Submitted(NamedTuple):
    """A job was submitted: its forecast at this moment is the one that counts."""

    job: Job
    metrics: Sequence[str]

    @property
    def series(self) -> Sequence[Key]:
        """The series whose stored answer the event changes."""
        return ()


class Finished(NamedTuple):
    """A job has ended and used this much of each metric; None: no value."""

    job: Job
    values: Mapping[str, float | None]

    @property
    def series(self) -> Sequence[Key]:
        """The series whose stored answer the event changes."""
        job = self.job
        return [Key(job.cluster, job.user, metric) for metric, value in self.values.items() if value is not None]


class RanOut(NamedTuple):
    """A job ran out of its reservation."""

    cluster: str
    metric: str
    question: Question
    reserved: float

    @property
    def series(self) -> Sequence[Key]:
        """The series whose stored answer the event changes."""
        return [Key(self.cluster, self.question.user or "", self.metric)]


Event = Submitted | Finished | RanOut


def events_by_time(
    finished: Sequence[Job], waiting: Sequence[Job], learned: Mapping[int, Mapping[str, float | None]]
) -> list[Submitted | Finished]:
    """The ends of the ``finished``, with what they used, and the submissions of those ``waiting`` for a forecast.

    At one instant, jobs end before others are submitted. Jobs whose forecast at submission can never be judged are left
    out: they were removed, or ended before.
    """
    ends = {job.run_id: job.end or 0.0 for job in finished}
    events: list[tuple[float, int, Submitted | Finished]] = [
        (ends[job.run_id], 0, Finished(job, {metric: learned[job.run_id].get(metric) for metric in METRICS}))
        for job in finished
    ]
    for job in waiting:
        submitted = job.submitted or 0.0
        if submitted < ends[job.run_id] if job.run_id in ends else job.state in _FORECAST_FOR:
            events.append((submitted, 1, Submitted(job, tuple(METRICS))))
    events.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in events]


def forecasts_among(events: Sequence[Submitted | Finished], forecast_before: Set[int], before: int) -> dict[int, int]:
    """For each run forecast among the events: ``learn_seq`` of the last run learned before that.

    A run that ends without a forecast is forecast, and judged, when it is learned.
    """
    found: dict[int, int] = {}
    for event in events:
        if isinstance(event, Submitted):
            found[event.job.run_id] = before
        else:
            if event.job.run_id not in forecast_before:
                found.setdefault(event.job.run_id, before)
            before += 1
    return found
