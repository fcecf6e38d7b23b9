"""A run's request, reservation, forecast and use beside each other, on one scale for each resource."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_predictor.metrics import METRICS
from jobsight_server.queries.efficiency import RESOURCES
from jobsight_server.queries.job_detail import RunDetail, RunMetric

WIDTH = 100.0

RESOURCE_OF = {metric: resource for resource, metric in RESOURCES.items()}
"""Metric -> the resource that it measures."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Values of the whole run in one metric; ``x_*`` are their positions on a scale from 0 to ``WIDTH``."""

    metric: str
    requested: float | None
    reserved: float | None
    forecast: float | None
    used: float | None
    at_least: bool
    so_far: bool
    x_requested: float | None
    x_reserved: float | None
    x_forecast: float | None
    x_used: float | None

    @property
    def is_over(self) -> bool:
        """Return whether the run used more than the recommended reservation."""
        return self.used is not None and self.reserved is not None and self.used > self.reserved


def bars(run: RunDetail) -> list[Bar]:
    """Return a bar for each metric with a known value."""
    found = (_bar(run, entry) for entry in run.profile if entry.metric in RESOURCE_OF)
    return [bar for bar in found if bar is not None]


def _bar(run: RunDetail, entry: RunMetric) -> Bar | None:
    of_job = METRICS[entry.metric].is_of_job
    count = 1 if of_job else run.asked_processors or run.processors
    if not count:
        return None
    use = entry.so_far if entry.value is None else entry.value
    requested = _requested(run, entry.metric)
    reserved, forecast, used = (
        None if amount is None else amount * count for amount in (entry.bound, entry.forecast, use)
    )
    known = [amount for amount in (requested, reserved, forecast, used) if amount is not None]
    if not known:
        return None
    most = max(known) or 1.0

    def place(amount: float | None) -> float | None:
        return None if amount is None else round(amount * WIDTH / most, 2)

    return Bar(
        metric=entry.metric,
        requested=requested,
        reserved=reserved,
        forecast=forecast,
        used=used,
        at_least=entry.lower_bound,
        so_far=entry.value is None and entry.so_far is not None,
        x_requested=place(requested),
        x_reserved=place(reserved),
        x_forecast=place(forecast),
        x_used=place(used),
    )


def _requested(run: RunDetail, metric: str) -> float | None:
    """Return the user's request, else the job's allocation; a request of 0 is none."""
    asked, given = {
        "memory": (run.asked_memory_bytes, run.requested_memory_bytes),
        "runtime": (run.asked_walltime_s, run.requested_walltime_s),
        "cpu": (run.asked_processors, run.processors),
    }.get(metric, (None, None))
    return (given if asked is None else asked) or None
