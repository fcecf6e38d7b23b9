"""Whether values are per processor, as they are learned, or for the whole job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from jobsight_predictor.metrics import METRICS
from jobsight_server.errors import UserError
from jobsight_server.forecasts.prediction import StoredPrediction

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


def whole_job(answer: StoredPrediction, metric: str, processors: int) -> StoredPrediction:
    """The answer with every value in the metric's unit multiplied by ``processors``."""

    def times(value: float | None) -> float | None:
        return None if value is None else value * processors

    other = answer.runner_up
    return msgspec.structs.replace(
        answer,
        unit=METRICS[metric].job_unit,
        value=times(answer.value),
        bound=times(answer.bound),
        attempts=tuple(attempt * processors for attempt in answer.attempts),
        runner_up=other and replace(other, value=other.value * processors),
        last_values=tuple(value * processors for value in answer.last_values),
        forecasts={name: times(value) for name, value in answer.forecasts.items()},
    )
