"""A request for forecasts: a job, its cluster, the metric, and what the values are per: a processor or the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.errors import UserError

PER = ("processor", "job")

WHOLE = frozenset(name for name, metric in METRICS.items() if metric.is_of_job)
"""Metrics that are always of the whole job."""


class UnknownProcessorsError(UserError):
    """Values for the whole job were requested without its number of processors."""


def processors_of(processors: int | None, metrics: Iterable[str]) -> int:
    """The processors by which the values of these metrics are multiplied.

    Raises:
        UnknownProcessorsError: they are not given, but a metric needs them.
    """
    if processors is None and not WHOLE.issuperset(metrics):
        raise UnknownProcessorsError("values per job need the number of processors; give processors, such as 16")
    return processors or 1


class UnknownMetricError(UserError):
    """A metric that is not forecast."""


class ForecastRequest(NamedTuple):
    """What will the job described by ``question`` need on ``cluster``?

    ``cluster`` None asks for every cluster that knows the user, ``metric`` None for all metrics. ``per`` says whether
    the values of the answer are per ``processor`` or for the whole ``job``, whose processors must then be known.
    """

    cluster: str | None
    question: Question
    metric: str | None = None
    per: str = "processor"

    @property
    def user(self) -> str:
        return self.question.user or ""

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics asked for.

        Raises:
            UnknownMetricError: it is not forecast.
        """
        if self.metric is None:
            return tuple(METRICS)
        if self.metric not in METRICS:
            raise UnknownMetricError(f"metric {self.metric!r} is not forecast; choose one of {', '.join(METRICS)}")
        return (self.metric,)

    @property
    def scale(self) -> int | None:
        """How many processors the values are for; None leaves them per processor.

        Raises:
            UnknownProcessorsError: they are for the whole job, and its processors are not known.
        """
        return processors_of(self.question.processors, self.metrics) if self.per == "job" else None


def whole_job_request(cluster: str, question: Question, metric: str) -> ForecastRequest:
    """What will the whole job need? One whose processors are not known counts as one processor."""
    return ForecastRequest(cluster, question, metric, "job" if question.processors else "processor")
