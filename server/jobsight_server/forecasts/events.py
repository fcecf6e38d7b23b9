"""What was learned, read back from the stored rows in the order in which it was learned."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, func, insert, or_, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.forecasts.outcomes import (
    Event,
    Finished,
    Observation,
    Started,
    Submitted,
    observed,
    reported,
    reported_first,
)
from jobsight_server.forecasts.request import COLUMNS, ForecastConfig, ForecastJob, job_of, read_jobs
from jobsight_server.storage.schema import jobs, learned_until, outcomes, profiles


class LearnedUntil(NamedTuple):
    """The last run and the last report that were learned: ``profiles.learn_seq`` and ``outcomes.id``; 0 for none."""

    learn_seq: int
    outcome_id: int


def last_learn_seq(connection: Connection) -> int:
    """``learn_seq`` of the run learned last; 0 before the first."""
    return connection.scalar(select(func.max(profiles.c.learn_seq))) or 0


def last_event(connection: Connection) -> LearnedUntil:
    """The end of what is stored to be learned."""
    last_report = select(func.max(outcomes.c.id)).where(outcomes.c.learn_seq.is_not(None))
    return LearnedUntil(last_learn_seq(connection), connection.scalar(last_report) or 0)


def read_learned_until(connection: Connection) -> LearnedUntil | None:
    """How far the stored model has learned; None if it has to be retrained."""
    row = connection.execute(select(learned_until)).first()
    return None if row is None else LearnedUntil(*row)


def write_learned_until(connection: Connection, until: LearnedUntil) -> None:
    """Stores how far the model has learned, with the model."""
    connection.execute(delete(learned_until))
    connection.execute(insert(learned_until).values(until._asdict()))


WAITS = and_(jobs.c.profiled.is_(False), jobs.c.state.in_(("queued", "running", "ended")))
"""Runs that may still be learned."""


def learned_events(
    connection: Connection,
    config: ForecastConfig,
    begin: LearnedUntil,
    end: int | None,
    under_way: dict[int, ForecastJob],
) -> list[Event]:
    """The events after ``begin``, up to and including the run with ``learn_seq`` ``end``; None: all.

    At one position in the order, a run is learned first, then reports, then submissions and starts.
    ``under_way`` carries the submitted, unfinished jobs from one piece to the next.
    """
    first = begin.learn_seq
    found: list[tuple[int, int, Event]] = []
    found += [(learn_seq, 2, event) for learn_seq, event in _submitted(connection, first, end, under_way)]
    found += [(learn_seq, 3, event) for learn_seq, event in _started(connection, first, end)]
    found += [(learn_seq, 1, event) for learn_seq, event in reported(connection, first, end, begin.outcome_id)]
    found += [(learn_seq, 0, event) for learn_seq, event in _finished(connection, config, first, end, under_way)]
    found.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in found]


def _finished(
    connection: Connection, config: ForecastConfig, begin: int, end: int | None, under_way: dict[int, ForecastJob]
) -> list[tuple[int, Finished]]:
    """A run's use of the metrics learned at each ``learn_seq``; a late value has one of its own."""
    names = ("learn_seq", "run_id", "metric", "value", "attribution", "lower_bound")
    query = select(*(profiles.c[name] for name in names)).where(profiles.c.learn_seq > begin)
    query = query.order_by(profiles.c.learn_seq, profiles.c.run_id)
    if end is not None:
        query = query.where(profiles.c.learn_seq <= end)
    found: dict[tuple[int, int], dict[str, Observation | None]] = {}
    for learn_seq, run_id, metric, value, attribution, lower_bound in connection.execute(query):
        of_run = found.setdefault((learn_seq, run_id), {})
        of_run[metric] = Observation(value, lower_bound) if value is not None and config.learns(attribution) else None
    known = read_jobs(connection, [run_id for _, run_id in found if run_id not in under_way])
    known |= {run_id: under_way.pop(run_id) for _, run_id in found if run_id in under_way}
    reported = reported_first(connection)
    events = []
    for (learn_seq, run_id), measured in found.items():
        # The run time is known from the log, so what is without it arrived late.
        all_of = observed(known[run_id], measured, is_late="runtime" not in measured)
        all_of = {metric: all_of.get(metric) for metric in METRICS if all_of.get(metric) is not None}
        for metric in [metric for metric in all_of if (run_id, metric) in reported]:
            all_of[metric] = None
        events.append((learn_seq, Finished(known[run_id], all_of)))
    return events


def _submitted(
    connection: Connection, begin: int, end: int | None, under_way: dict[int, ForecastJob]
) -> list[tuple[int, Submitted]]:
    """A metric in which nothing is known of the job can be skipped; what it ran out of is known without a value."""
    ran_out = [
        and_(jobs.c.failure == failure, profiles.c.metric == metric) for failure, metric in FAILED_METRIC.items()
    ]
    is_measured = and_(profiles.c.run_id == jobs.c.id, or_(profiles.c.value.is_not(None), *ran_out))
    query = (
        select(profiles.c.metric, *COLUMNS)
        .outerjoin_from(jobs, profiles, is_measured)
        .where(jobs.c.forecast_seq >= begin, or_(profiles.c.metric.is_not(None), WAITS))
        .order_by(jobs.c.forecast_seq, jobs.c.id)
    )
    if end is not None:
        query = query.where(jobs.c.forecast_seq < end)
    found: dict[int, tuple[ForecastJob, list[str]]] = {}
    for metric, *row in connection.execute(query):
        if row[0] not in found:
            found[row[0]] = (job_of(row), [])
        found[row[0]][1].extend(found[row[0]][0].metrics if metric is None else (metric,))
    under_way |= {run_id: job for run_id, (job, _) in found.items()}
    return [(job.forecast_seq or 0, Submitted(job, metrics)) for job, metrics in found.values()]


def _started(connection: Connection, begin: int, end: int | None) -> list[tuple[int, Started]]:
    """Of runs that may still be learned: the forecasts at start of the others have been judged, and taught nothing."""
    query = (
        select(jobs.c.start_seq, *COLUMNS)
        .where(jobs.c.start_seq >= begin, jobs.c.start > jobs.c.submitted, WAITS)
        .order_by(jobs.c.start_seq, jobs.c.id)
    )
    if end is not None:
        query = query.where(jobs.c.start_seq < end)
    found = [(start_seq, job_of(row)) for start_seq, *row in connection.execute(query)]
    return [(start_seq, Started(job, job.metrics)) for start_seq, job in found]
