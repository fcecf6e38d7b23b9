"""Stored sums of jobs over days: read by group, and shown in hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import truediv
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from jobsight_server.ground.listing import Asked
from jobsight_server.savings.sums.add import AMOUNTS, COLUMNS, METRICS, JobSums
from jobsight_server.savings.sums.kept import BY_WEEK, month_of, week_of
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import savings

# Divisors of the sums: resources are shown in GiB-hours and processor-hours, jobs as counts.
_DIVISORS = {
    metric: tuple(unit if name in AMOUNTS else 1.0 for name in COLUMNS)
    for metric, unit in (("memory", 2.0**30 * 3600.0), ("runtime", 3600.0))
}


class SavedAmounts(NamedTuple):
    """The fields of ``Saved``, all of them known."""

    jobs: int
    requested_hours: float
    used_hours: float
    requests_repeated_hours: float
    reserved_hours: float
    repeated_hours: float
    freed_hours: float
    freed_share: float | None
    needed_more: int
    ran_out: int
    would_run_out: int


def saved_amounts(sums: Iterable[float], metric: str) -> SavedAmounts:
    """Return the hours and counts of these sums."""
    of = JobSums._make(map(truediv, sums, _DIVISORS[metric]))
    freed, held = of.request_held - of.bound_held, of.request_held
    return SavedAmounts(
        jobs=int(of.jobs),
        requested_hours=of.requested,
        used_hours=of.used,
        requests_repeated_hours=held - of.requested,
        reserved_hours=of.reserved,
        repeated_hours=of.bound_held - of.reserved,
        freed_hours=freed,
        freed_share=freed / held if held > 0 else None,
        needed_more=int(of.needed_more),
        ran_out=int(of.request_failures),
        would_run_out=int(of.bound_failures),
    )


_LONGEST_MONTH = 31
_IN_PERIODS = "s.metric = ? AND s.level = ? AND s.period = asked.period AND s.first_day = asked.first_day"


class Days(NamedTuple):
    """The days ``first`` to ``last``, both included, counted from 1970-01-01."""

    first: int
    last: int


_STORED = (savings.c.metric == bindparam("of"), savings.c.level == "cluster", savings.c.period == "day")
# Two look-ups; as one query SQLite would read all days.
_ENDS = select(
    select(func.min(savings.c.first_day)).where(*_STORED).scalar_subquery().label("first"),
    select(func.max(savings.c.first_day)).where(*_STORED).scalar_subquery().label("last"),
)


def stored_days(connection: Connection) -> Days | None:
    """Return the first and the last day with a counted job; None without one."""
    rows = (connection.execute(_ENDS, {"of": metric}).one() for metric in METRICS)
    found = [row for row in rows if row.first is not None]
    return Days(min(row.first for row in found), max(row.last for row in found)) if found else None


def within(days: Days, stored: Days | None) -> Days | None:
    """Return those of the days that are between the first and the last stored one; None if none is."""
    if stored is None or days.first > stored.last or days.last < stored.first:
        return None
    return Days(max(days.first, stored.first), min(days.last, stored.last))


def widened(days: Days, stored: Days) -> Days:
    """Extend ``days`` to whole months at an end of the stored days: there are no other jobs to count."""
    first = month_of(stored.first) if days.first <= stored.first else days.first
    last = _next_month(month_of(stored.last)) - 1 if days.last >= stored.last else days.last
    return Days(first, last)


def sums_as(columns: Sequence[str]) -> str:
    """Return SQL for the sums of these columns, under their names."""
    return ", ".join(f"CAST(sum({name}) AS DOUBLE PRECISION) AS {name}" for name in columns)


def sums_of_all(
    connection: Connection,
    metric: str,
    days: Days,
    level: str,
    cluster: str | None = None,
    columns: Sequence[str] = COLUMNS,
    ids: Iterable[int] | None = None,
    having: str = "",
) -> list[Any]:
    """Return cluster and name of each group of the level, or of these, with the sums of some ``COLUMNS``.

    ``having``: SQL for a condition of the sums.

    Of the level "group" the name is two columns, user and application, with a row for each of its queues and accounts.
    """
    names = 'g."user", g.application' if level == "group" else f'g."{level}"'
    of_groups = "" if ids is None else f" AND s.group_id IN ({', '.join(map(str, ids)) or 'NULL'})"
    query = (
        f"WITH {_by_group(days, level, sums_as(columns), of_groups, having)} "
        f"SELECT g.cluster, {names}, {', '.join(columns)} "
        "FROM by_group JOIN savings_groups g ON g.id = by_group.group_id"
    )
    of_cluster = "" if cluster is None else " WHERE g.cluster = ?"
    return fetch(connection, query + of_cluster, (metric, level, *([] if cluster is None else [cluster])))


def _by_group(days: Days, level: str, sums: str, of_groups: str = "", having: str = "") -> str:
    # By group first: its names are looked up once, not for each day.
    return (
        f"asked(period, first_day) AS (VALUES {_values(days, level == BY_WEEK)}), by_group AS "
        f"(SELECT s.group_id, {sums} FROM asked CROSS JOIN savings s "
        f"WHERE {_IN_PERIODS}{of_groups} GROUP BY s.group_id{having and f' HAVING {having}'})"
    )


_OF_JOBS = (
    "sum(jobs + without_request + without_use + without_bound) AS jobs, CAST(sum(used) AS DOUBLE PRECISION) AS used"
)
_APPLICATIONS = (
    'WITH {by_group}, named AS MATERIALIZED (SELECT g.cluster, g."user", g.application, '
    "CAST(sum(jobs) AS BIGINT) AS jobs, sum(used) / 3600.0 AS processor_hours "
    "FROM by_group JOIN savings_groups g ON g.id = by_group.group_id WHERE {which} GROUP BY 2, 3, 1 "
    "HAVING sum(jobs) > 0) SELECT named.*, (SELECT count(*) FROM named) FROM named"
)
_NEAR = " WHERE {sort} {side} (SELECT {sort} FROM named ORDER BY {sort} {order} LIMIT 1 OFFSET {last})"


def applications(
    connection: Connection, days: Days, of: Mapping[str, str | None], asked: Asked
) -> tuple[int, list[Any]]:
    """Return how many applications of users there are ``of`` these names, and cluster, user, application, jobs and
    processor-hours of those near the page, or of all in a steady order."""
    which = {name: value for name, value in of.items() if value is not None}
    query = _APPLICATIONS.format(
        by_group=_by_group(days, "group", _OF_JOBS),
        which=" AND ".join(["1 = 1", *(f'g."{name}" = ?' for name in which)]),
    )
    values, last = ("runtime", "group", *which.values()), asked.page * asked.limit
    if not asked.is_steady:
        side, order = (">=", "DESC") if asked.descending else ("<=", "ASC")
        rows = fetch(connection, query + _NEAR.format(sort=asked.sort, side=side, order=order, last=last), values)
    if asked.is_steady or not rows:  # fewer than to the end of the page
        rows = fetch(connection, query, values)
    return max((total for *_, total in rows), default=0), [tuple(row) for *row, _ in rows]


def sums_by(
    connection: Connection, metric: str, of: tuple[str, str], days: Days, cluster: str | None, columns: Sequence[str]
) -> list[Any]:
    """Return name, first day and sums, over clusters, of each group of a level and each day or month: ``of`` both."""
    query = (
        f'SELECT g."{of[0]}" AS name, s.first_day, {sums_as(columns)} '
        "FROM savings s JOIN savings_groups g ON g.id = s.group_id "
        "WHERE s.metric = ? AND s.level = ? AND s.period = ? AND s.first_day BETWEEN ? AND ?"
        f"{'' if cluster is None else ' AND g.cluster = ?'} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return fetch(connection, query, (metric, *of, *days, *([] if cluster is None else [cluster])))


def sums_of_user(
    connection: Connection, metric: str, days: Days, noun: str, cluster: str, user: str
) -> dict[tuple[str, str], JobSums]:
    """Return the sums by any column of the groups, for one user, by look-ups of the user's groups alone."""
    query = (
        f'WITH asked(period, first_day) AS (VALUES {_values(days, False)}) SELECT g.cluster, g."{noun}" AS name, '
        f"{sums_as(COLUMNS)} FROM savings_groups g CROSS JOIN asked CROSS JOIN savings s WHERE {_IN_PERIODS} "
        'AND s.group_id = g.id AND g.cluster = ? AND g."user" = ? GROUP BY 1, 2'
    )
    rows = fetch(connection, query, (metric, "group", cluster, user))
    return {(place, name): JobSums._make(sums) for place, name, *sums in rows}


def periods_of(days: Days, *, by_week: bool = False) -> list[tuple[str, int]]:
    """Return the months within the days, and each day before and after these, by their first day.

    ``by_week``: whole weeks, too, instead of their days.

    >>> periods_of(Days(20_147, 20_210))  # 2025-02-28 to 2025-05-02
    [('day', 20147), ('month', 20148), ('month', 20179), ('day', 20209), ('day', 20210)]
    >>> periods_of(Days(20_183, 20_192), by_week=True)  # a Saturday to a Monday
    [('day', 20183), ('day', 20184), ('week', 20185), ('day', 20192)]
    """
    begin, end = month_of(days.first), month_of(days.last + 1)
    if begin < days.first:
        begin = _next_month(begin)
    months = []
    while begin < end:
        months.append(begin)
        begin = _next_month(begin)
    before = months[0] if months else days.last + 1
    return [
        *_weeks_and_days(days.first, before, by_week=by_week),
        *(("month", month) for month in months),
        *_weeks_and_days(max(before, end), days.last + 1, by_week=by_week),
    ]


def _weeks_and_days(first: int, beyond: int, *, by_week: bool) -> list[tuple[str, int]]:
    weeks = range(week_of(first + 6), beyond - 6, 7) if by_week else range(0)
    before, after = (weeks[0], weeks[-1] + 7) if weeks else (beyond, beyond)
    return [
        *(("day", day) for day in range(first, before)),
        *(("week", week) for week in weeks),
        *(("day", day) for day in range(after, beyond)),
    ]


def _next_month(month: int) -> int:
    return month_of(month + _LONGEST_MONTH)


@lru_cache(64)
def _values(days: Days, by_week: bool) -> str:
    return ", ".join(f"('{period}', {first_day})" for period, first_day in periods_of(days, by_week=by_week))
