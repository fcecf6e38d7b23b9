"""Maintains the totals: adds jobs as they are learned, and recomputes a day's totals if they have changed.

All of it within the caller's transaction, which holds the lock of learning: the totals agree with the profiles at any
moment, except for the days marked for recomputing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, or_, select, text

from jobsight_server.forecasts.learn import lock_learning
from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME, application
from jobsight_server.savings.groups import (
    COLUMNS,
    LEVELS,
    METRICS,
    amounts_of,
    counted_as,
    group_ids,
    group_name,
    levels_of,
)
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.samples import memory_of_largest_nodes
from jobsight_server.storage.savings_to_do import DAY_S, day_of
from jobsight_server.storage.schema import job_nodes, jobs, profiles, savings, savings_groups, savings_to_do

log = logging.getLogger(__name__)

_EPOCH = date(1970, 1, 1)
_decode = msgspec.json.Decoder(list[float]).decode
_AT_ONCE = 500

_HELD_NODES = select(func.count()).where(job_nodes.c.run_id == jobs.c.id).scalar_subquery()
_RAN_OUT_OF_IT = and_(
    profiles.c.lower_bound,
    or_(
        and_(profiles.c.metric == "memory", jobs.c.failure == "memory", jobs.c.asked_memory_bytes.is_(None)),
        and_(profiles.c.metric == "runtime", jobs.c.failure == "time", jobs.c.asked_walltime_s.is_(None)),
    ),
)
"""Of what was asked for: a job that ran out of less shows nothing about that."""

_JOBS = (
    select(
        jobs.c.cluster,
        jobs.c.user,
        jobs.c.name,
        jobs.c.queue,
        jobs.c.processors,
        ASKED_PROCESSORS.label("asked_processors"),
        ASKED_MEMORY.label("asked_memory_bytes"),
        ASKED_WALLTIME.label("asked_walltime_s"),
        _HELD_NODES.label("held_nodes"),
        _RAN_OUT_OF_IT.label("ran_out"),
        jobs.c.start,
        jobs.c.end,
        profiles.c.metric,
        profiles.c.value,
        profiles.c.bound,
        profiles.c.attempts,
        profiles.c.shown_only,
    )
    .join_from(jobs, profiles, profiles.c.run_id == jobs.c.id)
    .where(profiles.c.metric.in_(METRICS))
    .order_by(jobs.c.id)
)
_NAMED = _JOBS.where(jobs.c.id.in_(bindparam("runs", expanding=True)))
_OF_DAY = _JOBS.where(jobs.c.end >= bindparam("since"), jobs.c.end < bindparam("until"))

_SUMS = ", ".join(f"{name} = savings.{name} + excluded.{name}" for name in COLUMNS)
_ON_CONFLICT = f"ON CONFLICT (metric, level, period, first_day, group_id) DO UPDATE SET {_SUMS}"
_ADD = (
    f"INSERT INTO savings (metric, level, period, first_day, group_id, {', '.join(COLUMNS)}) "
    f"VALUES (?, ?, ?, ?, ?{', ?' * len(COLUMNS)}) {_ON_CONFLICT}"
)
_TAKE_BACK = text(
    f"INSERT INTO savings (metric, level, period, first_day, group_id, {', '.join(COLUMNS)}) "
    f"SELECT metric, level, 'month', :month, group_id, {', '.join(f'-{name}' for name in COLUMNS)} "
    f"FROM savings WHERE metric = :metric AND level = :level AND period = 'day' AND first_day = :day {_ON_CONFLICT}"
)
_EMPTY = " AND ".join(f"{name} = 0" for name in ("jobs", "without_request", "without_use", "without_bound"))
_OF_LEVEL = "DELETE FROM savings WHERE metric = :metric AND level = :level"
_DELETE_DAY = text(
    "DELETE FROM savings WHERE metric = :metric AND level = :level AND period = 'day' AND first_day = :day"
)
_DELETE_EMPTY = text(f"{_OF_LEVEL} AND period = 'month' AND first_day = :month AND {_EMPTY}")


def month_of(day: int) -> int:
    """The first day of its month."""
    return (as_date(day).replace(day=1) - _EPOCH).days


def as_date(day: int) -> date:
    """The day of the calendar."""
    return _EPOCH + timedelta(days=day)


def add_runs(connection: Connection, runs: Sequence[int]) -> None:
    """Counts runs that have just been profiled."""
    for begin in range(0, len(runs), _AT_ONCE):
        add_jobs(connection, connection.execute(_NAMED, {"runs": list(runs[begin : begin + _AT_ONCE])}))


def days_of(connection: Connection, runs: Sequence[int]) -> set[int]:
    """The days on which these runs ended."""
    query = select(jobs.c.end).where(jobs.c.id.in_(bindparam("runs", expanding=True)), jobs.c.end.is_not(None))
    found: set[int] = set()
    for begin in range(0, len(runs), _AT_ONCE):
        found.update(map(day_of, connection.scalars(query, {"runs": list(runs[begin : begin + _AT_ONCE])})))
    return found


def count_again(connection: Connection, days: Collection[int]) -> None:
    """Computes the totals of these days from the current profiles."""
    for day in sorted(days):
        keys = [
            {"metric": metric, "level": level, "day": day, "month": month_of(day)}
            for metric in METRICS
            for level in LEVELS
        ]
        for key in keys:
            connection.execute(_TAKE_BACK, key)
            connection.execute(_DELETE_DAY, key)
        add_jobs(connection, connection.execute(_OF_DAY, {"since": day * DAY_S, "until": (day + 1) * DAY_S}))
        for key in keys:
            connection.execute(_DELETE_EMPTY, key)


def count_marked(engine: Engine, stop: threading.Event | None = None) -> int:
    """Recomputes the totals of all marked days, one day per transaction; returns how many there were."""
    done = 0
    while not (stop and stop.is_set()):
        with engine.connect().execution_options(reading=True) as connection:
            day = connection.scalar(select(savings_to_do.c.day).order_by(savings_to_do.c.day.desc()).limit(1))
        if day is None:
            break
        with engine.begin() as connection:
            lock_learning(connection)
            if connection.execute(delete(savings_to_do).where(savings_to_do.c.day == day)).rowcount:
                count_again(connection, [day])
                done += 1
    if done:
        log.info("recomputed the savings of %d days", done)
    return done


def forget_empty_groups(connection: Connection) -> None:
    """Removes the groups without any counted job."""
    counted = select(savings.c.group_id).where(savings.c.level.in_(LEVELS), savings.c.period == "month")
    connection.execute(delete(savings_groups).where(savings_groups.c.id.not_in(counted)))


def _attempts(row: Any) -> tuple[float, ...]:
    """What was recommended at submission, and after that was too little; empty without a recommendation."""
    if row.bound is None:
        return ()
    return (row.bound,) if row.attempts is None else tuple(_decode(row.attempts))


def add_jobs(connection: Connection, rows: Iterable[Any]) -> None:
    """Adds jobs to the totals of their days and months; a row has what the log says of one, and one of its profiles."""
    sums: dict[Any, list[float]] = {}
    largest = memory_of_largest_nodes(connection)
    for row in rows:
        name = group_name(row.cluster, row.user, row.name and application(row.name), row.queue)
        value = None if row.shown_only and not row.ran_out else row.value
        attempts = _attempts(row)
        if row.metric == "memory" and row.cluster in largest and row.held_nodes:
            most = largest[row.cluster] * row.held_nodes / (row.asked_processors or 1)
            attempts = tuple(dict.fromkeys(min(attempt, most) for attempt in attempts))
        key = (row.metric, day_of(row.end), name)
        total = sums.setdefault(key, [0] * len(COLUMNS))
        for i, amount in enumerate(amounts_of(row, row.metric, value, attempts)):
            total[i] += amount
    names = counted_as(connection, list(dict.fromkeys(name for _, _, name in sums)))
    ids = group_ids(connection, (group for name in names.values() for group in levels_of(name).values()))
    added: dict[tuple[str, str, str, int, int], list[float]] = {}
    for (metric, day, name), total in sums.items():
        for level, group in levels_of(names[name]).items():
            for period, first_day in (("day", day), ("month", month_of(day))):
                into = added.setdefault((metric, level, period, first_day, ids[group]), [0] * len(COLUMNS))
                into[:] = [a + b for a, b in zip(into, total, strict=True)]
    write_many(connection, _ADD, [(*key, *total) for key, total in added.items()])
