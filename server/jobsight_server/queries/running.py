"""Running jobs: their forecasts, their use so far, and the resources that they will run out of, with time and
probability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, func, literal_column, or_, select

from jobsight_predictor.metrics import metrics_of
from jobsight_predictor.profile.prospect import TIME_TAIL
from jobsight_predictor.profile.running import (
    LIKELY,
    MEMORY_NEAR,
    Outlook,
    RunsOut,
    memory_runs_out,
    time_runs_out,
)
from jobsight_server.accounting.last_read import is_running
from jobsight_server.advice.recommendation import predictions
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.outlooks import read_outlooks
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.request import question_of
from jobsight_server.forecasts.stored_model import read_pending
from jobsight_server.ground.answers import Record, Share
from jobsight_server.storage.engine import fetch, rows_of
from jobsight_server.storage.schema import job_nodes, jobs, running_outlooks, running_use
from jobsight_server.storage.schema.jobs import ASKED_PROCESSORS

WATCHED = ("memory", "runtime")
"""Metrics known while a job runs."""


def nodes_of_running(connection: Connection, now: float) -> list[tuple[str, int, str, int]]:
    """Return cluster, run, node and processors there of the running jobs."""
    query = select(jobs.c.cluster, job_nodes.c.run_id, job_nodes.c.node, job_nodes.c.processors)
    return fetch(connection, query.join(jobs, jobs.c.id == job_nodes.c.run_id).where(is_running(now)), {})


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
    asked = due_at_submission(runs, metrics)
    answers = predictions(connection, reader, list(asked.values()))
    return stored_at_submission(connection, runs, metrics) | provisional(asked, answers)


def stored_at_submission(
    connection: Connection, runs: Sequence[Row[Any]], metrics: Sequence[str] | None
) -> dict[tuple[int, str], Forecast]:
    """Return the stored ones of ``forecasts_of``."""
    fixed = read_pending(connection, [run.id for run in runs], metrics)
    return {
        (run_id, metric): Forecast(forecast.value, forecast.first, forecast.probability, False)
        for (run_id, metric), forecast in fixed.items()
        if forecast.value is not None
    }


def due_at_submission(
    runs: Sequence[Row[Any]], metrics: Sequence[str] | None
) -> dict[tuple[int, str], ForecastRequest]:
    """Return what to ask for the others of ``forecasts_of``."""
    return {
        (run.id, metric): ForecastRequest(run.cluster, question, metric, gpus=run.gpus or 0)
        for run in runs
        if run.forecast_seq is None and run.state in ("queued", "running", "ended")
        for question in [question_of(run)]
        for metric in metrics or metrics_of(gpus=bool(run.gpus))
    }


def provisional(
    asked: Mapping[tuple[int, str], ForecastRequest], answers: Iterable[Prediction]
) -> dict[tuple[int, str], Forecast]:
    """Return the current forecasts in the answers to these requests."""
    return {
        key: Forecast(answer.value, answer.bound, answer.probability, True)
        for key, answer in zip(asked, answers, strict=True)
        if answer.value is not None
    }


def used_so_far(connection: Connection, runs: Sequence[Row[Any]], now: float) -> dict[tuple[int, str], SoFar]:
    """Return the use so far by run and metric of ``WATCHED``, for the running ones of ``runs``."""
    running = [run for run in runs if run.state == "running"]
    found = {(run.id, "runtime"): SoFar(max(0.0, now - run.start)) for run in running}
    found |= {(run.id, "memory"): SoFar(None, "its samples have not been read yet") for run in running}
    for row in rows_of(connection, select(running_use), running_use.c.run_id, [run.id for run in running]):
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


WITHIN_S = 3600.0
Resource = Literal["memory", "time"]

_UNKNOWN = Outlook(index=TIME_TAIL)

_Outcome = tuple[Any, Resource, float, float | None, float | None, RunsOut | None, float | None]
"""A row, its resource, used, expected, limit, what is known of running out, and the time left."""


class Foreseen(Record):
    """A resource of a running job: the whole job's use so far (``used``), peak or sum, and its ``expected`` total
    use, the median; bytes or seconds.

    ``chance``: that it needs more than its ``limit``; ``soon``: that it does so within the requested time; ``in_s``:
    after how many seconds, if it does. Null if it has no limit, jobs are not held to their requests, or too few
    earlier ones are known.
    """

    cluster: str
    job_id: str
    user: str
    name: str | None
    resource: Resource
    used: float
    expected: float | None
    limit: float | None
    chance: Share | None
    soon: Share | None
    in_s: float | None


def running_out(connection: Connection, now: float) -> list[Foreseen]:
    """Return the running jobs that are likely to run out within the hour, the next first.

    Where too little is known, these are the jobs that hold nine tenths of their memory, or reach their limit by then.
    """
    found = []
    for each in _foreseen(connection, now, _MAY_RUN_OUT, soon=now + WITHIN_S + 1.0, at=now):
        _, resource, used, expected, limit, runs_out, left_s = each
        if runs_out is not None and runs_out.soon is not None:
            is_listed = runs_out.soon >= LIKELY
        elif limit is not None and (runs_out is not None or expected is None):
            is_near = used >= MEMORY_NEAR * limit
            is_listed = is_near if resource == "memory" else left_s is not None and left_s <= WITHIN_S
        else:
            is_listed = False
        if is_listed:
            found.append(_of(*each))
    return sorted(found, key=lambda each: (inf if each.in_s is None else each.in_s, each.cluster, each.job_id))


def foreseen(connection: Connection, run_id: int, now: float) -> list[Foreseen]:
    """Return the outlook for the resources of one run; none unless it runs."""
    return [_of(*each) for each in _foreseen(connection, now, jobs.c.id == run_id)]


def _may_exceed(metric: str, use: Any, limit: Any) -> Any:
    """Return the condition for a use to be as large as the outlook says; true without an outlook for this limit."""
    of = running_outlooks.c
    least = select(of.likely_from).where(of.run_id == jobs.c.id, of.metric == metric, of.limit == limit)
    return use >= func.coalesce(func.nullif(least.scalar_subquery(), 0), use)


_LIMIT = jobs.c.requested_memory_bytes * literal_column("1.0") / func.coalesce(func.nullif(ASKED_PROCESSORS, 0), 1)
_MAY_RUN_OUT = or_(
    and_(
        jobs.c.requested_walltime_s > 0,
        jobs.c.start + jobs.c.requested_walltime_s <= bindparam("soon"),
        _may_exceed("runtime", bindparam("at") - jobs.c.start, jobs.c.requested_walltime_s),
    ),
    and_(
        running_use.c.memory > 0,
        jobs.c.requested_memory_bytes > 0,
        _may_exceed("memory", running_use.c.memory, _LIMIT),
    ),
)
"""The few of thousands that may be listed: what is not likely yet was found with the outlook."""
_RUNS = (
    select(*(jobs.c[name] for name in ("id", "cluster", "job_id", "user", "name", "start")))
    .add_columns(jobs.c.requested_memory_bytes, jobs.c.requested_walltime_s, ASKED_PROCESSORS.label("asked"))
    .add_columns(running_use.c.memory, running_use.c.growth)
    .outerjoin(running_use, running_use.c.run_id == jobs.c.id)
)


def _foreseen(connection: Connection, now: float, chosen: ColumnElement[bool], **values: float) -> Iterator[_Outcome]:
    """Yield the arguments of ``_of`` for the ``chosen`` of the running jobs: few of these become records."""
    rows = connection.execute(_RUNS.where(is_running(now), chosen), values).all()
    outlooks = read_outlooks(connection, [row.id for row in rows])
    for row in rows:
        elapsed_s = max(0.0, now - row.start)
        limit_s = row.requested_walltime_s or None
        known = outlooks.get((row.id, "runtime"))
        runs_out = None
        if known is not None and limit_s is not None and known.are_limits:
            runs_out = time_runs_out(known.outlook, elapsed_s, limit_s, WITHIN_S)
        ends_s = (_UNKNOWN if known is None else known.outlook).final(elapsed_s)
        if limit_s is not None and (known is None or known.are_limits):
            ends_s = max(elapsed_s, min(ends_s, limit_s))
        expected_s = None if known is None else ends_s
        yield row, "time", elapsed_s, expected_s, limit_s, runs_out, None if limit_s is None else limit_s - elapsed_s
        if row.memory is None or row.memory <= 0.0:
            continue
        processors = row.asked or 1
        limit, known = row.requested_memory_bytes or None, outlooks.get((row.id, "memory"))
        expected, runs_out = None if known is None else processors * known.outlook.final(row.memory), None
        if known is not None and limit is not None and known.are_limits:
            outlook, growth = known.outlook, row.growth or 0.0
            run_s = max(1.0, ends_s - elapsed_s)
            runs_out = memory_runs_out(outlook, row.memory, growth, limit / processors, elapsed_s, run_s, WITHIN_S)
            expected = min(expected or 0.0, max(limit, processors * row.memory))
        yield row, "memory", processors * row.memory, expected, limit, runs_out, None


def _of(
    row: Any,
    resource: Resource,
    used: float,
    expected: float | None,
    limit: float | None,
    runs_out: RunsOut | None,
    left_s: float | None,
) -> Foreseen:
    return Foreseen.of_row(
        row,
        resource=resource,
        used=used,
        expected=expected,
        limit=limit,
        chance=None if runs_out is None else runs_out.chance,
        soon=None if runs_out is None else runs_out.soon,
        in_s=left_s if runs_out is None else runs_out.due_s,
    )
