"""Reads the totals of a span of days: whole months by their own rows, the rest by days."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_server.savings.kept import month_of
from jobsight_server.savings.totals import COLUMNS, METRICS
from jobsight_server.storage.engine import fetch

_LONGEST_MONTH = 31
_SUMS = ", ".join(f"CAST(sum({name}) AS DOUBLE PRECISION) AS {name}" for name in COLUMNS)
_IN_PERIODS = "s.metric = ? AND s.level = ? AND s.period = asked.period AND s.first_day = asked.first_day"


class Days(NamedTuple):
    """From the day ``first`` to the day ``last``, both included, counted from 1970-01-01."""

    first: int
    last: int


def stored_days(connection: Connection) -> Days | None:
    """The first and the last day of which a job is counted; None where there is none."""
    of_days = "FROM savings WHERE metric = ? AND level = 'cluster' AND period = 'day'"
    # Each a look-up; asked for together SQLite would read all days.
    query = f"SELECT (SELECT min(first_day) {of_days}), (SELECT max(first_day) {of_days})"
    found = [row for metric in METRICS for row in fetch(connection, query, (metric, metric)) if row[0] is not None]
    return Days(min(row[0] for row in found), max(row[1] for row in found)) if found else None


def widened(days: Days, stored: Days) -> Days:
    """The same jobs with whole months where ``days`` reach an end of what is stored: there are no others to count."""
    first = month_of(stored.first) if days.first <= stored.first else days.first
    last = _next_month(month_of(stored.last)) - 1 if days.last >= stored.last else days.last
    return Days(first, last)


def sums_of_all(connection: Connection, metric: str, days: Days, level: str, cluster: str | None = None) -> list[Any]:
    """Cluster and name of each group of the level, user or another, with the sums of ``COLUMNS``."""
    # By group first: its names are looked up once, not for each day.
    query = (
        f"WITH asked(period, first_day) AS (VALUES {_values(days)}), by_group AS (SELECT s.group_id, {_SUMS} "
        f"FROM asked CROSS JOIN savings s WHERE {_IN_PERIODS} GROUP BY s.group_id) "
        f'SELECT g.cluster, g."{level}", {", ".join(COLUMNS)} '
        "FROM by_group JOIN savings_groups g ON g.id = by_group.group_id"
    )
    of_cluster = "" if cluster is None else " WHERE g.cluster = ?"
    return fetch(connection, query + of_cluster, (metric, level, *([] if cluster is None else [cluster])))


def sums_of_user(connection: Connection, metric: str, days: Days, noun: str, cluster: str, user: str) -> list[Any]:
    """The same by any column of the groups, of one user, by look-ups of the user's groups alone."""
    query = (
        f'WITH asked(period, first_day) AS (VALUES {_values(days)}) SELECT g.cluster, g."{noun}" AS name, {_SUMS} '
        f"FROM savings_groups g CROSS JOIN asked CROSS JOIN savings s WHERE {_IN_PERIODS} "
        'AND s.group_id = g.id AND g.cluster = ? AND g."user" = ? GROUP BY 1, 2'
    )
    return fetch(connection, query, (metric, "group", cluster, user))


def periods_of(days: Days) -> list[tuple[str, int]]:
    """Months that lie within the days, and each day before and after these, by their first day.

    >>> periods_of(Days(20_147, 20_210))  # 2025-02-28 to 2025-05-02
    [('day', 20147), ('month', 20148), ('month', 20179), ('day', 20209), ('day', 20210)]
    """
    begin, end = month_of(days.first), month_of(days.last + 1)
    if begin < days.first:
        begin = _next_month(begin)
    if begin >= end:
        return [("day", day) for day in range(days.first, days.last + 1)]
    months = [begin]
    while (following := _next_month(months[-1])) < end:
        months.append(following)
    return [
        *(("day", day) for day in range(days.first, begin)),
        *(("month", month) for month in months),
        *(("day", day) for day in range(end, days.last + 1)),
    ]


def _next_month(month: int) -> int:
    return month_of(month + _LONGEST_MONTH)


def _values(days: Days) -> str:
    return ", ".join(f"('{period}', {first_day})" for period, first_day in periods_of(days))
