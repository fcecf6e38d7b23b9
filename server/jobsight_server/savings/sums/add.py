"""Totals of jobs: adds jobs as they are learned, and recomputes a day's totals if they have changed.

All within the caller's transaction, which holds the lock of learning: the totals always agree with the profiles, except
for the days marked for recomputing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, nextafter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, bindparam, case, delete, false, func, or_, select

from jobsight_predictor.profile.reserve import held
from jobsight_server.forecasts.rounds import lock_learning
from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.savings.sums.kept import (
    BY_WEEK,
    LEVELS,
    SCORES_KEPT,
    WAITS_KEPT,
    GroupName,
    KeptSums,
    Sums,
    counted_as,
    group_ids,
    group_name,
    levels_of,
    month_of,
    score_of,
    wait_class,
)
from jobsight_server.storage.clusters import memory_of_largest_nodes
from jobsight_server.storage.engine import insert_into, of_runs, whole
from jobsight_server.storage.schema import job_nodes, jobs, profiles, savings, savings_to_do
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME

METRICS = ("memory", "runtime")
"""Metrics with recommended reservations. Memory counts in byte seconds, run time in processor seconds."""

HELD = ("cpu", "gpu_utilisation")
WAITED = "wait"
COUNTED = (*METRICS, *HELD, WAITED)
"""Metrics with totals. Of processors and GPUs, in seconds of one, ``requested`` are those held and ``used`` the busy
part; none are recommended, so ``reserved`` equals those held. Their ``weight`` has all jobs, also those left out, and
``request_failures`` of processors are the jobs that ran out of memory or time. ``used`` of ``WAITED`` are the seconds
from submission to start, where both are known.
"""

AMOUNTS = ("weight", "requested", "used", "reserved", "request_held", "bound_held")


class JobSums(NamedTuple):
    """Sums over jobs: a row's columns in the table.

    ``jobs`` have a request, a measured use and a bound from submission; the amounts are theirs. ``weight`` is the
    factor of a value: requested processors x run time for memory per processor, held processors for a run time.
    ``request_held`` and ``bound_held`` have all attempts of the jobs that the request or the bound would have killed.
    ``needed_more`` than their request: those that it killed, and those that ran on with more memory (it was others',
    which time is not); ``request_failures`` are those of them that did not end well. Of the ``bound_failures``, which
    needed more than the bound, some may have ended well, too. Other jobs are left out.
    """

    jobs: float = 0.0
    weight: float = 0.0
    requested: float = 0.0
    used: float = 0.0
    reserved: float = 0.0
    request_held: float = 0.0
    bound_held: float = 0.0
    needed_more: float = 0.0
    request_failures: float = 0.0
    bound_failures: float = 0.0
    without_request: float = 0.0
    without_use: float = 0.0
    without_bound: float = 0.0


COLUMNS = JobSums._fields

AMOUNTS_KEPT = KeptSums(
    savings,
    COUNTED,
    COLUMNS,
    LEVELS,
    "month",
    month_of,
    ("jobs", "without_request", "without_use", "without_bound"),
    BY_WEEK,
)
KEPT = (AMOUNTS_KEPT, SCORES_KEPT, WAITS_KEPT)

PROVES_IDLE = 0.05
"""A job that never had more than this share of its GPUs busy counts with that, though its mean is unknown."""

# Sums of whole units are exact, in any order of counting jobs and taking them back.
_UNITS = {"memory": 2.0**20, "runtime": 1.0}


def amounts_of(job: Any, metric: str, value: float | None, attempts: Sequence[float]) -> tuple[float, ...]:
    """Return the columns of one job, a row of ``jobs`` with ``lower_bound``; ``value`` is None if not measured or only
    shown.

    ``attempts``: the bound at its submission and the reservations after it, as far as known; empty without one.

    A job that ran out of its request needed more than that, whatever its measured use. One that used more and ran on
    shows that no amount would have killed it.
    """
    if metric in HELD:
        return _held(job, metric, value)
    if metric == "memory":  # measured per requested processor; the job may hold more
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
    is_limit = job.ran_out or value <= request
    all_of = (held((request,), value), held(attempts, value, request)) if is_limit else (request, bound)
    unit = _UNITS[metric]
    per_unit = (request, value, bound, *all_of)
    amounts = [round(weight), *(round(amount * weight / unit) * unit for amount in per_unit)]
    counts = is_limit or metric != "runtime"
    needed_more = counts and value > request
    return (1, *amounts, int(needed_more), int(needed_more and job.failed), int(counts and value > bound), 0, 0, 0)


def _left_out(reason: str) -> tuple[float, ...]:
    return _only({reason: 1})


def _only(sums: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(sums.get(name, 0) for name in COLUMNS)


def _held(job: Any, metric: str, value: float | None) -> tuple[float, ...]:
    """Return the columns of the processors or GPUs that the job held over its run time."""
    number = (job.processors if metric == "cpu" else job.gpus) or 0
    if metric == "gpu_utilisation":
        # Where only the most that were busy at one time is known, hardly any proves that they were idle.
        busy = value if job.mean is None and (value or 0.0) <= PROVES_IDLE * number else job.mean
        value = busy / number if number and busy is not None else None
    held = round(number * (job.end - job.start))
    of_all = {"weight": held, "request_failures": int(metric == "cpu" and job.failure is not None)}
    if value is None or not number:
        return _only({**of_all, "without_use": 1})
    counted = dict.fromkeys(("requested", "reserved", "request_held", "bound_held"), held)
    return _only({**of_all, **counted, "jobs": 1, "used": round(min(value, 1.0) * held)})


log = logging.getLogger(__name__)

_HELD_NODES = select(func.count()).where(job_nodes.c.run_id == jobs.c.id).scalar_subquery()
_RAN_OUT_OF_IT = and_(
    profiles.c.lower_bound,
    or_(
        and_(profiles.c.metric == "memory", jobs.c.failure == "memory", jobs.c.asked_memory_bytes.is_(None)),
        and_(profiles.c.metric == "runtime", jobs.c.failure == "time", jobs.c.asked_walltime_s.is_(None)),
    ),
)
"""Only by the request: a job that ran out of less shows nothing about it."""

_FAILED = or_(jobs.c.failure.is_not(None), jobs.c.ended_abnormally, jobs.c.exit_status != 0)
_QUEUED = func.coalesce(jobs.c.queued, jobs.c.created)
_WAITED = case((func.coalesce(jobs.c.start_unknown, false()).is_(False), jobs.c.start - _QUEUED))
_JOBS = (
    select(
        *(jobs.c[name] for name in ("cluster", "user", "application", "queue", "account", "processors", "gpus")),
        *(jobs.c.failure, jobs.c.requested_memory_bytes),
        ASKED_PROCESSORS.label("asked_processors"),
        ASKED_MEMORY.label("asked_memory_bytes"),
        ASKED_WALLTIME.label("asked_walltime_s"),
        _HELD_NODES.label("held_nodes"),
        _WAITED.label("waited_s"),
        *(_RAN_OUT_OF_IT.label("ran_out"), func.coalesce(_FAILED, false()).label("failed")),
        *(jobs.c.start, jobs.c.end, profiles.c.metric, profiles.c.value, profiles.c.mean),
        *(profiles.c.forecast, profiles.c.bound, profiles.c.attempts, profiles.c.shown_only, profiles.c.lower_bound),
    )
    .join_from(jobs, profiles, profiles.c.run_id == jobs.c.id)
    .order_by(jobs.c.id)
)
_NAMED = _JOBS.where(jobs.c.id.in_(bindparam("runs", expanding=True)))
_OF_DAY = _JOBS.where(jobs.c.end >= bindparam("since"), jobs.c.end < bindparam("until"))


def add_runs(connection: Connection, runs: Sequence[int]) -> None:
    """Count runs that have just been profiled."""
    add_jobs(connection, of_runs(connection, _NAMED, runs))


def take_back_runs(connection: Connection, runs: Sequence[int]) -> None:
    """Take back the counts of these runs before their data changes; then ``add_runs`` counts them again."""
    add_jobs(connection, of_runs(connection, _NAMED, runs), times=-1)


def days_of(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Return the days on which these runs ended."""
    query = select(jobs.c.end).where(jobs.c.id.in_(bindparam("runs", expanding=True)), jobs.c.end.is_not(None))
    return {int(end // DAY_S) for (end,) in of_runs(connection, query, runs)}


def count_again(connection: Connection, days: Collection[int]) -> None:
    """Compute the totals of these days from the current profiles."""
    for day in sorted(days):
        for kept in KEPT:
            kept.take_back(connection, day)
        add_jobs(connection, connection.execute(_OF_DAY, {"since": day * DAY_S, "until": (day + 1) * DAY_S}))
        for kept in KEPT:
            kept.forget_empty(connection, day)


def mark_all(connection: Connection) -> None:
    """Mark every day on which a profiled run ended."""
    days = select(whole(connection, jobs.c.end / DAY_S)).where(jobs.c.profiled).distinct()
    connection.execute(insert_into(connection, savings_to_do).from_select(["day"], days).on_conflict_do_nothing())


def count_marked(engine: Engine, stop: threading.Event | None = None) -> int:
    """Recompute the totals of all marked days, one day per transaction; return how many there were."""
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


def add_jobs(connection: Connection, rows: Iterable[Any], times: int = 1) -> None:
    """Add jobs to the totals of their days and months; a row has a job's data from the log, and one of its profiles.

    ``times`` -1 takes them back.
    """
    amounts: Sums = {}
    scores: Sums = {}
    waits: Sums = {}
    largest = memory_of_largest_nodes(connection)
    for row in rows:
        name = group_name(row.cluster, row.user, row.application, row.queue, row.account)
        key = (row.metric, int(row.end // DAY_S), name)
        if row.metric in COUNTED:
            _add_to(amounts, key, _amounts(row, largest))
        if row.metric == "runtime" and row.waited_s is not None:  # once a job
            waited = _only({"jobs": 1, "used": round(max(0.0, row.waited_s))})
            _add_to(amounts, (WAITED, *key[1:]), waited)
            _add_to(waits, (f"{wait_class(row.waited_s)}", *key[1:]), (1,))
        if (score := score_of(row, next(iter(recommended_requests(row.bound, row.attempts)), None))) is not None:
            _add_to(scores, key, score)
    names = counted_as(connection, list(dict.fromkeys(name for _, _, name in (*amounts, *scores))))
    ids = group_ids(connection, (group for name in names.values() for group in levels_of(name).values()))
    for kept, sums in zip(KEPT, (amounts, scores, waits), strict=True):
        counted: Sums = {}
        for (metric, day, name), total in sums.items():
            _add_to(counted, (metric, day, names[name]), [times * value for value in total])
        kept.add(connection, counted, ids)


def sums_with(connection: Connection, runs: Sequence[int], metric: str, attempts: Sequence[float]) -> list[float]:
    """Return the sums of these runs as if ``attempts``, per processor for memory, had been recommended to them."""
    largest = memory_of_largest_nodes(connection)
    rows = of_runs(connection, _NAMED.where(profiles.c.metric == metric), runs)
    return [sum(column) for column in zip(*(_amounts(row, largest, attempts) for row in rows), strict=True)]


def _add_to(sums: Sums, key: tuple[str, int, GroupName], amounts: Sequence[float]) -> None:
    total = sums.get(key)
    sums[key] = list(amounts) if total is None else [a + b for a, b in zip(total, amounts, strict=True)]


def _amounts(row: Any, largest: Mapping[str, float], attempts: Sequence[float] | None = None) -> tuple[float, ...]:
    # A job that failed with more than it requested needed more.
    is_more = row.metric == "memory" and row.lower_bound and row.failed
    is_more = is_more and row.value * (row.asked_processors or 1) > (row.asked_memory_bytes or inf)
    value = None if row.shown_only and not (row.ran_out or is_more) else row.value
    attempts = recommended_requests(row.bound, row.attempts) if attempts is None else attempts
    if row.metric == "memory" and row.cluster in largest and row.held_nodes:
        most = largest[row.cluster] * row.held_nodes / (row.asked_processors or 1)
        attempts = tuple(dict.fromkeys(min(attempt, most) for attempt in attempts))
    return amounts_of(row, row.metric, value, attempts)
