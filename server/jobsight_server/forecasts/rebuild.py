"""Learns everything anew from the stored profiles, as it was learned first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, and_, delete, or_, select, text

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.templates import Question
from jobsight_server.forecasts.collection import no_collection
from jobsight_server.forecasts.job import COLUMNS, Job, job_of, read_jobs
from jobsight_server.forecasts.learn import Event, Finished, Learner, RanOut, Submitted
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.parts import made_otherwise
from jobsight_server.forecasts.round import hold_learning, last_position
from jobsight_server.storage.schema import failures, jobs, profile_parts, profiles, series, tickets

log = logging.getLogger(__name__)

_STEP = 5000
_SHOWN_ONLY = text(
    "UPDATE profiles SET shown_only = :shown_only "
    "WHERE attribution = 'apportioned' AND value IS NOT NULL AND shown_only <> :shown_only"
)
_WAITS = and_(jobs.c.profiled.is_(False), jobs.c.state.in_(("running", "ended")))

Progress = Callable[[int, int], None]


def rebuild(engine: Engine, method: Method | None = None, progress: Progress | None = None) -> int:
    """Learns every profile and series anew; the rows are exactly those that learning run by run had left.

    Reads and learns without holding anybody up; only what was learned meanwhile is caught up with, and the new rows
    are written, in one transaction that others wait for. ``progress(done, all)`` counts runs. Returns how many
    series there are.
    """
    method = method or Method()
    learner, under_way = Learner(method), dict[int, Job]()
    with no_collection():
        with engine.connect().execution_options(reading=True) as connection:
            top = last_position(connection)
            for begin in range(0, top, _STEP):
                end = min(begin + _STEP, top)
                learner.replay(_events(connection, method, begin, end, under_way))
                if progress is not None:
                    progress(end, top)
        learner.collect()
        with engine.begin() as connection:
            hold_learning(connection)
            learner.replay(_events(connection, method, top, None, under_way))
            waiting = set(connection.scalars(select(jobs.c.id).where(jobs.c.foretold.is_not(None), _WAITS)))
            learner.tickets = {key: ticket for key, ticket in learner.tickets.items() if key[0] in waiting}
            for table in (series, profile_parts, tickets):
                connection.execute(delete(table))
            connection.execute(_SHOWN_ONLY, {"shown_only": not method.learn_apportioned})
            return learner.store(connection)


def rebuild_if_made_otherwise(engine: Engine, method: Method) -> bool:
    """Retrains where other settings, or an older version, made what is stored; returns whether it did."""
    with engine.connect().execution_options(reading=True) as connection:
        if not made_otherwise(connection, method):
            return False
    log.info("the stored model was trained with other settings or by another version: retraining on all finished jobs")
    count = rebuild(engine, method)
    log.info("retrained %d series", count)
    return True


def _events(
    connection: Connection, method: Method, begin: int, end: int | None, under_way: dict[int, Job]
) -> list[Event]:
    """What followed the run at position ``begin``, up to the one at ``end``, itself included; None: all of it.

    At one position a run is learned first, then come the reservations that ran out, then the submissions.
    ``under_way`` keeps the jobs that were submitted and have not finished from one piece to the next.
    """
    found: list[tuple[int, int, Event]] = []
    found += [(position, 2, event) for position, event in _submitted(connection, begin, end, under_way)]
    found += [(position, 1, event) for position, event in _ran_out(connection, begin, end)]
    found += [(position, 0, event) for position, event in _finished(connection, method, begin, end, under_way)]
    found.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in found]


def _finished(
    connection: Connection, method: Method, begin: int, end: int | None, under_way: dict[int, Job]
) -> list[tuple[int, Finished]]:
    """Per position what a run used of the metrics learned there; a value that arrived late has one of its own."""
    columns = (profiles.c.position, profiles.c.run_id, profiles.c.metric, profiles.c.value, profiles.c.attribution)
    query = select(*columns).where(profiles.c.position > begin).order_by(profiles.c.position, profiles.c.run_id)
    if end is not None:
        query = query.where(profiles.c.position <= end)
    found: dict[tuple[int, int], dict[str, float | None]] = {}
    for position, run_id, metric, value, attribution in connection.execute(query):
        values = found.setdefault((position, run_id), {})
        if value is not None and method.learns(attribution):
            values[metric] = value
    known = read_jobs(connection, [run_id for _, run_id in found if run_id not in under_way])
    known |= {run_id: under_way.pop(run_id) for _, run_id in found if run_id in under_way}
    return [
        (position, Finished(known[run_id], {metric: values[metric] for metric in METRICS if metric in values}))
        for (position, run_id), values in found.items()
    ]


def _submitted(
    connection: Connection, begin: int, end: int | None, under_way: dict[int, Job]
) -> list[tuple[int, Submitted]]:
    """A metric of which the job was to have no value need not be looked at."""
    told = and_(profiles.c.run_id == jobs.c.id, profiles.c.value.is_not(None))
    query = (
        select(profiles.c.metric, *COLUMNS)
        .outerjoin_from(jobs, profiles, told)
        .where(jobs.c.foretold >= begin, or_(profiles.c.metric.is_not(None), _WAITS))
        .order_by(jobs.c.foretold, jobs.c.id)
    )
    if end is not None:
        query = query.where(jobs.c.foretold < end)
    found: dict[int, tuple[Job, list[str]]] = {}
    for metric, *row in connection.execute(query):
        if row[0] not in found:
            found[row[0]] = (job_of(row), [])
        found[row[0]][1].extend(METRICS if metric is None else (metric,))
    under_way |= {run_id: job for run_id, (job, _) in found.items()}
    return [(job.foretold or 0, Submitted(job, metrics)) for job, metrics in found.values()]


def _ran_out(connection: Connection, begin: int, end: int | None) -> list[tuple[int, RanOut]]:
    query = select(failures).where(failures.c.position >= begin).order_by(failures.c.id)
    if end is not None:
        query = query.where(failures.c.position < end)
    return [(row.position, _ran_out_of(row)) for row in connection.execute(query)]


def _ran_out_of(row: Any) -> RanOut:
    question = Question(*msgspec.json.decode(row.question, type=tuple[Any, ...]))
    return RanOut(row.cluster, row.metric, question, row.reserved)
