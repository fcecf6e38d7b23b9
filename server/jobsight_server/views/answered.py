"""How good the answers were, by what the last jobs used."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from jobsight_predictor.held import Held
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.quality import accuracy, within20
from jobsight_server.forecasts.round import last_position
from jobsight_server.storage.schema import jobs, profiles

LAST_JOBS = 500


def answered(connection: Connection) -> list[dict[str, Any]]:
    """Per metric, over the last 500 runs learned: forecasts as they stood at submission against what was used.

    ``jobs`` had a forecast and a value; ``accuracy`` their mean accuracy, ``within20`` the share of forecasts within
    20 %, ``coverage`` the share that would have fitted into their bound, ``cost_coverage`` the same weighted by
    value x seconds; None where there was no such job.
    """
    query = (
        select(profiles.c.metric, profiles.c.value, profiles.c.forecast, profiles.c.bound, jobs.c.end - jobs.c.start)
        .join(jobs, jobs.c.id == profiles.c.run_id)
        .where(
            profiles.c.position > last_position(connection) - LAST_JOBS,
            profiles.c.value.is_not(None),
            profiles.c.shown_only.is_(False),
            profiles.c.forecast.is_not(None),
        )
    )
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in METRICS}
    held = {metric: Held() for metric in METRICS}
    for metric, value, forecast, bound, seconds in connection.execute(query):
        found[metric].append((value, forecast))
        held[metric].score(bound, value, seconds)
    return [
        {
            "metric": metric,
            "jobs": len(rows),
            "accuracy": _mean([accuracy(forecast, value) for value, forecast in rows]),
            "within20": _mean([within20(forecast, value) for value, forecast in rows]),
            "coverage": held[metric].coverage,
            "cost_coverage": held[metric].cost_coverage,
        }
        for metric, rows in found.items()
    ]


def _mean(figures: list[float] | list[bool]) -> float | None:
    return sum(figures) / len(figures) if figures else None
