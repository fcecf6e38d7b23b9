"""Runs that forecasts have not learned from yet: their own forecasts, and the use so far of running ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, select

from jobsight_predictor.metrics import metrics_of
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.reader import read_pending
from jobsight_server.forecasts.request import question_of
from jobsight_server.storage.schema import running_use

WATCHED = ("memory", "runtime")
"""Metrics known while a job runs."""

_AT_ONCE = 500


class Forecast(NamedTuple):
    """The forecast for a run; ``provisional``: not final, since earlier jobs are still being learned."""

    value: float
    bound: float | None
    probability: float | None
    provisional: bool


class SoFar(NamedTuple):
    """A running run's use so far, in the metric's unit, or the reason why it is unknown."""

    value: float | None
    reason: str | None = None


def forecasts_of(
    connection: Connection, reader: AnswerReader, runs: Sequence[Row[Any]], metrics: Sequence[str] | None = None
) -> dict[tuple[int, str], Forecast]:
    """Return by run and metric the forecast at submission; without ``metrics`` in all that concern the run.

    It is stored once everything that ended before the submission has been learned. Until then, it is the current
    forecast: nothing that ended later has been learned either. ``runs`` are rows of ``jobs``.
    """
    fixed = read_pending(connection, [run.id for run in runs])
    found = {
        (run_id, metric): Forecast(forecast.value, forecast.bound, forecast.probability, False)
        for (run_id, metric), forecast in fixed.items()
        if (metrics is None or metric in metrics) and forecast.value is not None
    }
    open_runs = [run for run in runs if run.forecast_seq is None and run.state in ("queued", "running", "ended")]
    asked = [
        (run.id, metric, _request(run, metric))
        for run in open_runs
        for metric in metrics or metrics_of(gpus=bool(run.gpus))
    ]
    answers = reader.answers(connection, [request for _, _, request in asked])
    for (run_id, metric, _), answer in zip(asked, answers, strict=True):
        if answer.value is not None:
            found[run_id, metric] = Forecast(answer.value, answer.bound, answer.probability, True)
    return found


def used_so_far(connection: Connection, runs: Sequence[Row[Any]], now: float) -> dict[tuple[int, str], SoFar]:
    """Return the use so far by run and metric of ``WATCHED``, for the running ones of ``runs``."""
    running = [run for run in runs if run.state == "running"]
    query = select(running_use).where(running_use.c.run_id.in_(bindparam("runs", expanding=True)))
    found = {(run.id, "runtime"): SoFar(max(0.0, now - run.start)) for run in running}
    found |= {(run.id, "memory"): SoFar(None, "its samples have not been read yet") for run in running}
    for begin in range(0, len(running), _AT_ONCE):
        some = [run.id for run in running[begin : begin + _AT_ONCE]]
        for row in connection.execute(query, {"runs": some}):
            found[row.run_id, "memory"] = SoFar(row.memory, row.reason)
    return found


def over_bound(
    run_id: int, forecasts: Mapping[tuple[int, str], Forecast], used: Mapping[tuple[int, str], SoFar]
) -> list[str]:
    """Return the metrics in which a running run already exceeds its recommended reservation."""
    over = []
    for metric in WATCHED:
        forecast, so_far = forecasts.get((run_id, metric)), used.get((run_id, metric))
        if forecast is None or forecast.bound is None or so_far is None or so_far.value is None:
            continue
        if so_far.value > forecast.bound:
            over.append(metric)
    return over


def _request(run: Row[Any], metric: str) -> ForecastRequest:
    return ForecastRequest(run.cluster, question_of(run), metric)
