"""Forecast accuracy over the last jobs."""

from __future__ import annotations

from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.calibration import Held
from jobsight_predictor.series import accuracy, within20
from jobsight_server.forecasts.events import last_learn_seq
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.storage.engine import fetch

LAST_JOBS = 500

# SQLite takes a range with one bound for a quarter of the table, and would read all jobs first.
_LAST = """
SELECT p.metric, p.value, p.forecast, p.bound, jobs."end" - jobs.start FROM profiles AS p CROSS JOIN jobs
WHERE jobs.id = p.run_id AND p.learn_seq > ? AND p.learn_seq <= ?
  AND p.value IS NOT NULL AND NOT p.shown_only AND p.forecast IS NOT NULL
"""


class MetricAccuracy(Record):
    """Forecasts of one metric at submission, compared with actual use; null if there was no such job.

    ``jobs`` had a forecast and a value; ``accuracy`` their mean accuracy, ``within20`` the share of forecasts within
    20 %, ``coverage`` the share of jobs within their bound, ``cost_coverage`` the same weighted by value x seconds.
    """

    metric: Metric
    jobs: int
    accuracy: Share | None
    within20: Share | None
    coverage: Share | None
    cost_coverage: Share | None


def recent_accuracy(connection: Connection) -> list[MetricAccuracy]:
    """Return accuracy by metric, over the last 500 runs that forecasts learned from."""
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in METRICS}
    held = {metric: Held() for metric in METRICS}
    last = last_learn_seq(connection)
    for metric, value, forecast, bound, seconds in fetch(connection, _LAST, (last - LAST_JOBS, last)):
        found[metric].append((value, forecast))
        held[metric].score(bound, value, seconds)
    return [
        MetricAccuracy(
            metric=metric,
            jobs=len(rows),
            accuracy=_mean([accuracy(forecast, value) for value, forecast in rows]),
            within20=_mean([within20(forecast, value) for value, forecast in rows]),
            coverage=held[metric].coverage,
            cost_coverage=held[metric].cost_coverage,
        )
        for metric, rows in found.items()
        if rows or not METRICS[metric].of_gpus
    ]


def _mean(figures: list[float] | list[bool]) -> float | None:
    return sum(figures) / len(figures) if figures else None
