"""Forecasts now of waiting and running jobs, beside those at their submission and start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import QUEUED, RUNNING
from jobsight_server.advice.recommendation import predictions
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.events import read_at_start
from jobsight_server.forecasts.request import question_of
from jobsight_server.ground.answers import Metric, Record, Share
from jobsight_server.ground.job_ids import job_key, short_ids
from jobsight_server.queries.job_detail import ForecastAtStart, at_start
from jobsight_server.queries.job_named import named
from jobsight_server.queries.jobs import RunState
from jobsight_server.queries.running import due_at_submission, provisional, stored_at_submission
from jobsight_server.storage.engine import of_runs
from jobsight_server.storage.schema import jobs

_IS_OPEN = jobs.c.state.in_((QUEUED, RUNNING))
_BY_NUMBER = select(jobs).where(jobs.c.id.in_(bindparam("runs", expanding=True)))
_FEW = 100  # ids: each is looked up by itself


class KeptForecast(Record):
    """The forecast at submission; ``provisional``: jobs that ended before it are still being learned."""

    forecast: float
    bound: float | None
    probability: Share | None
    provisional: bool


class ForecastNow(Record):
    """The forecast now of a job's use in one metric, in ``unit``, and its changes.

    ``exceed_probability``: the chance that it needs more than ``bound``. Without a ``forecast``, ``reason`` says why.
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
    """A waiting (``start`` is None) or running run; ``job_id`` as requested."""

    cluster: str
    job_id: str
    user: str
    state: RunState
    submitted: float | None
    start: float | None
    forecasts: list[ForecastNow]


class OpenJobs(Record):
    """The open runs of the requested jobs, in their order; ``others`` are the ids without one."""

    now: float
    runs: list[OpenRun]
    others: list[str]


def open_jobs(
    connection: Connection,
    reader: AnswerReader,
    cluster: str | None,
    job_ids: Sequence[str],
    metrics: Sequence[str],
    now: float,
) -> OpenJobs:
    """Return the jobs' forecasts with everything learned until now; ``cluster`` None: in every one that knows them."""
    asked_by = _named_by(connection, cluster, list(dict.fromkeys(job_ids)))
    runs: dict[str, list[Row[Any]]] = {}
    rows = of_runs(connection, _BY_NUMBER, list(asked_by))
    for run in sorted(rows, key=lambda run: (run.cluster, run.start, run.id)):
        for name in asked_by[run.id]:
            runs.setdefault(name, []).append(run)
    ordered = [(job_id, run) for job_id in dict.fromkeys(job_ids) for run in runs.get(job_id, ())]
    forecasts = _forecasts(connection, reader, [run for _, run in ordered], metrics)
    return OpenJobs(
        now,
        [
            OpenRun.of_row(
                run,
                job_id=job_id,
                start=None if run.state == QUEUED else run.start,
                forecasts=forecasts[run.id],
            )
            for job_id, run in ordered
        ],
        [job_id for job_id in dict.fromkeys(job_ids) if job_id not in runs],
    )


def _named_by(connection: Connection, cluster: str | None, job_ids: Sequence[str]) -> dict[int, set[str]]:
    """Return the ids that name each open run, by the run's number."""
    here = [_IS_OPEN] if cluster is None else [_IS_OPEN, jobs.c.cluster == cluster]
    names: dict[int, set[str]] = {}
    if len(job_ids) <= _FEW:
        for job_id in job_ids:
            for number in connection.scalars(select(jobs.c.id).where(named(connection, job_id, cluster), *here)):
                names.setdefault(number, set()).add(job_id)
        return names
    # ``named`` finds one job; for many, reading the ids of all open ones is faster.
    asked: dict[str, list[str]] = {}
    for job_id in job_ids:
        asked.setdefault(job_key(job_id), []).append(job_id)
    for number, job_id, task in connection.execute(select(jobs.c.id, jobs.c.job_id, jobs.c.array_task).where(*here)):
        found = {name for short in short_ids(job_id) for name in asked.get(short, ())}
        found.update(name for name in asked.get(job_key(task or ""), ()) if name == task)
        if found:
            names[number] = found
    return names


def _forecasts(
    connection: Connection, reader: AnswerReader, runs: Sequence[Row[Any]], metrics: Sequence[str]
) -> dict[int, list[ForecastNow]]:
    """Return the forecasts of each run by its number, in these metrics."""
    runs = list({run.id: run for run in runs}.values())
    due = due_at_submission(runs, metrics)
    now = {
        (run.id, metric): ForecastRequest(run.cluster, question, metric, moment="start", gpus=run.gpus or 0)
        for run in runs
        for question in [due[run.id, metrics[0]].question if (run.id, metrics[0]) in due else question_of(run)]
        for metric in metrics
    }
    # Jobs of a burst ask the same; both moments of one follow one another, which share what is similar.
    distinct = list(dict.fromkeys(one[key] for key in now for one in (now, due) if key in one))
    answers = dict(zip(distinct, predictions(connection, reader, distinct), strict=True))
    submitted = stored_at_submission(connection, runs, metrics)
    submitted |= provisional(due, [answers[request] for request in due.values()])
    started = read_at_start(connection, [run.id for run in runs])
    forecasts: dict[int, list[ForecastNow]] = {run.id: [] for run in runs}
    for (run_id, metric), request in now.items():
        answer, kept = answers[request], submitted.get((run_id, metric))
        forecasts[run_id].append(
            ForecastNow(
                metric=metric,
                unit=METRICS[metric].unit,
                forecast=answer.value,
                bound=answer.bound,
                probability=answer.probability,
                exceed_probability=answer.exceed_probability,
                reason=answer.reason,
                at_submission=kept and KeptForecast(*kept),
                at_start=at_start(started.get((run_id, metric))),
            )
        )
    return forecasts
