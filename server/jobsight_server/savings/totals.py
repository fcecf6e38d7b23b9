"""Groups of jobs and their totals: adds jobs as they are learned, and recomputes a day's totals if they have changed.

All of it within the caller's transaction, which holds the lock of learning: the totals agree with the profiles at any
moment, except for the days marked for recomputing.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from math import inf, nextafter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, or_, select, text

from jobsight_predictor.profile.steps import held
from jobsight_server.forecasts.learn import lock_learning
from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME, application
from jobsight_server.storage.engine import fetch_by_keys, write_many
from jobsight_server.storage.event_counts import DAY_S, day_of
from jobsight_server.storage.samples import memory_of_largest_nodes
from jobsight_server.storage.schema import job_nodes, jobs, profiles, savings, savings_groups, savings_to_do

OTHER = "(other applications)"
"""Stands for further applications of a user with very many, such as one who names each job by the time of day."""
GROUPS_OF_A_USER = 100

_LONGEST = 100  # PostgreSQL does not accept index entries above 2,704 bytes

_FIND = (
    'WITH asked(cluster, "user", application, queue) AS (VALUES {asked}) '
    'SELECT g.cluster, g."user", g.application, g.queue, g.id FROM asked CROSS JOIN savings_groups g '
    'WHERE g.cluster = asked.cluster AND g."user" = asked."user" '
    "AND g.application = asked.application AND g.queue = asked.queue"
)
_COUNT = (
    'WITH asked(cluster, "user") AS (VALUES {asked}) '
    'SELECT g.cluster, g."user", count(*) FROM asked CROSS JOIN savings_groups g '
    'WHERE g.cluster = asked.cluster AND g."user" = asked."user" GROUP BY g.cluster, g."user"'
)
_ADD_GROUP = 'INSERT INTO savings_groups (cluster, "user", application, queue) VALUES (?, ?, ?, ?)'


class GroupName(NamedTuple):
    """Empty texts where the log does not say, and where a level leaves it out."""

    cluster: str
    user: str
    application: str
    queue: str


def group_name(cluster: str, user: str, application: str | None, queue: str | None) -> GroupName:
    """The name under which such jobs are counted; very long ones are cut."""
    return GroupName(cluster, user, _short(application or ""), _short(queue or ""))


def levels_of(name: GroupName) -> dict[str, GroupName]:
    """The names under which a group's jobs are counted at each level."""
    cluster, user, application, queue = name
    return {
        "group": name,
        "user": GroupName(cluster, user, "", ""),
        "application": GroupName(cluster, "", application, ""),
        "queue": GroupName(cluster, "", "", queue),
        "cluster": GroupName(cluster, "", "", ""),
    }


LEVELS = tuple(levels_of(GroupName("", "", "", "")))


def counted_as(connection: Connection, names: Sequence[GroupName]) -> dict[GroupName, GroupName]:
    """The group that each counts in: itself, or ``OTHER`` for those after a user's ``GROUPS_OF_A_USER``, by queue."""
    known = _find(connection, names)
    users = list(dict.fromkeys(name[:2] for name in names if name not in known))
    count: Counter[tuple[str, str]] = Counter({(c, u): n for c, u, n in fetch_by_keys(connection, _COUNT, users)})
    found = {name: name for name in known}
    for name in names:
        if name not in found:
            found[name] = name if count[name[:2]] < GROUPS_OF_A_USER else name._replace(application=OTHER)
            count[name[:2]] += 1
    return found


def group_ids(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    """The id of each group, created if it is new."""
    wanted = list(dict.fromkeys(names))
    known = _find(connection, wanted)
    write_many(connection, _ADD_GROUP, [name for name in wanted if name not in known])
    return _find(connection, wanted)


def _find(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    rows = fetch_by_keys(connection, _FIND, list(dict.fromkeys(names)))
    return {GroupName(*name): group_id for *name, group_id in rows}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:60]}#{hashlib.sha256(name.encode()).hexdigest()[:32]}"


METRICS = ("memory", "runtime")
"""Memory counts in byte seconds, run time in processor seconds."""

AMOUNTS = ("weight", "requested", "used", "reserved", "request_held", "bound_held")
COLUMNS = (
    "jobs",
    *AMOUNTS,
    "request_failures",
    "bound_failures",
    "without_request",
    "without_use",
    "without_bound",
)
"""Columns of the table that are added up.

``jobs`` have a request, a measured use and a bound that was given at submission; the amounts are theirs. ``weight`` is
what a value is multiplied by: processors asked for x run time of memory per processor, processors held of a run time.
``request_held`` is what ran, as it ran; ``bound_held`` has all attempts of the jobs that would have run out, the
``bound_failures``. The others are left out.
"""

# Sums of whole units are exact, in whatever order jobs are counted and taken back.
_UNITS = {"memory": 2.0**20, "runtime": 1.0}


def amounts_of(job: Any, metric: str, value: float | None, attempts: Sequence[float]) -> tuple[float, ...]:
    """The columns of one job, a row of ``jobs`` with ``lower_bound``; ``value`` is None if not measured or only shown.

    ``attempts``: the bound at its submission and what to reserve after it, as far as that is known; empty without one.

    A job that ran out of its request needed more, however little was measured.
    """
    if metric == "memory":  # is measured per processor asked for; others may be held too
        processors, request = job.asked_processors or 0, job.asked_memory_bytes
        weight = processors * (job.end - job.start)
        request = request / processors if request and processors else None
    else:
        processors, request = job.processors or 0, job.asked_walltime_s
        weight = float(processors)
    if value is None or not processors:
        return _left_out("without_use")
    if not request or request <= 0:
        return _left_out("without_request")
    if not attempts:
        return _left_out("without_bound")
    bound = attempts[0]
    if job.ran_out:
        value = max(value, nextafter(request, inf))
    unit = _UNITS[metric]
    per_unit = (request, value, bound, request, held(attempts, value, request))
    amounts = [round(weight), *(round(amount * weight / unit) * unit for amount in per_unit)]
    return (1, *amounts, int(value > request), int(value > bound), 0, 0, 0)


def _left_out(reason: str) -> tuple[float, ...]:
    return tuple(int(name == reason) for name in COLUMNS)


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
