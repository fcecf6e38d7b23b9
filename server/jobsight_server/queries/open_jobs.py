"""Forecasts of jobs that wait or run, as of now, beside those kept at their submission and their start."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from jobsight_predictor.metrics import METRICS, metrics_of
from jobsight_server.accounting.runs import QUEUED, RUNNING
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.at_start import read_at_start
from jobsight_server.forecasts.request import question_of
from jobsight_server.queries.jobs import ForecastAtStart, RunState, named
from jobsight_server.queries.running import Forecast, forecasts_of
from jobsight_server.queries.running_out import Foreseen, foreseen
from jobsight_server.record import Metric, Record, Share
from jobsight_server.storage.schema import jobs


class KeptForecast(Record):
    """What was forecast at the submission; ``provisional``: jobs that ended before it are still being learned."""

    forecast: float
    bound: float | None
    probability: Share | None
    provisional: bool


class ForecastNow(Record):
    """What a job will use in one metric as of now, in ``unit``, and how that has moved.

    ``exceed_probability``: that it needs more than ``bound``. Without a ``forecast``, ``reason`` says why.
    """

    metric: Metric
    unit: str
    forecast: float | None
    bound: float | None
    probability: Share | None
    exceed_probability: Share | None
    reason: str | None
    at_submission: KeptForecast | None
    at_start: ForecastAtStart | None


class OpenRun(Record):
    """A run that waits (``start`` is None then) or runs.

    ``foreseen``: while it runs, what it is expected to use in all given what it has used so far, and whether it runs
    out of that within the hour.
    """

    state: RunState
    submitted: float | None
    start: float | None
    user: str
    forecasts: list[ForecastNow]
    foreseen: list[Foreseen]


class OpenJob(Record):
    """The runs of a job that wait or run, oldest first; none once all have ended."""

    now: float
    cluster: str
    job_id: str
    runs: list[OpenRun]


def open_job(connection: Connection, reader: AnswerReader, cluster: str, job_id: str, now: float) -> OpenJob:
    """The job's forecasts with all that has been learned until now."""
    is_open = (named(job_id, cluster), jobs.c.state.in_((QUEUED, RUNNING)))
    runs = connection.execute(select(jobs).where(*is_open).order_by(jobs.c.start, jobs.c.id)).all()
    return OpenJob(now, cluster, job_id, [_open_run(connection, reader, run, now) for run in runs])


def _open_run(connection: Connection, reader: AnswerReader, run: Row[Any], now: float) -> OpenRun:
    metrics = metrics_of(gpus=bool(run.gpus))
    question = question_of(run)
    asked = [ForecastRequest(run.cluster, question, metric, moment="start") for metric in metrics]
    answers = reader.answers(connection, asked)
    submitted, started = forecasts_of(connection, reader, [run]), read_at_start(connection, [run.id])
    forecasts = []
    for metric, answer in zip(metrics, answers, strict=True):
        again = started.get((run.id, metric))
        forecasts.append(
            ForecastNow(
                metric=metric,
                unit=METRICS[metric].unit,
                forecast=answer.value,
                bound=answer.bound,
                probability=answer.probability,
                exceed_probability=answer.exceed_probability,
                reason=answer.reason,
                at_submission=_kept(submitted.get((run.id, metric))),
                at_start=None
                if again is None or again.value is None
                else ForecastAtStart(again.value, again.bound, again.probability),
            )
        )
    start = None if run.state == QUEUED else run.start
    ahead = foreseen(connection, run.id, now) if run.state == RUNNING else []
    return OpenRun(run.state, run.submitted, start, run.user, forecasts, ahead)


def _kept(found: Forecast | None) -> KeptForecast | None:
    return None if found is None else KeptForecast(*found)
