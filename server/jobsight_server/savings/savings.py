"""Savings by the recommendations, and what to request next time (docs/use/definitions.md, Savings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache, partial
from operator import truediv
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from jobsight_server.advice.recommendation import Recommendation, asked_as, recommend, recommend_each
from jobsight_server.advice.words import KEPT
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.last_runs import LOOKED_AT, LastRun, last_runs
from jobsight_server.ground.answers import Record
from jobsight_server.savings.kept_sums import OTHER, group_name, month_of
from jobsight_server.savings.totals import AMOUNTS, COLUMNS, METRICS, JobSums
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import savings

BY = ("user", "application", "queue", "account", "cluster")
LISTED = 10

# Divisors of the sums: resources are shown in GiB-hours and processor-hours, jobs as counts.
_DIVISORS = {
    metric: tuple(unit if name in AMOUNTS else 1.0 for name in COLUMNS)
    for metric, unit in (("memory", 2.0**30 * 3600.0), ("runtime", 3600.0))
}

TRIED = 2
"""Applications of a user for which a larger request is looked for."""


class Raise(Record):
    """An application that needs more than a job like the last, ``like_job``, requests: ``ask_for`` instead of
    ``asked_for``, for the whole job, in bytes or seconds. ``needed_more`` of ``jobs`` did not fit their request."""

    application: str
    like_job: str
    asked_for: float
    ask_for: float
    jobs: int
    needed_more: int


class Saved(Record):
    """Jobs with a request and a measured use; GiB-hours of memory, else processor-hours or GPU-hours.

    ``freed_hours``: what requests held, with the further attempts of the jobs that they killed
    (``requests_repeated_hours``), less what the recommended reservations (``reserved_hours``) would have held, with
    those that they would have killed (``repeated_hours``); negative if the reservations hold more. ``freed_share`` is
    its share of what requests held. ``needed_more`` jobs needed more than their request, and ``ran_out`` of these
    failed; ``would_run_out`` needed more than the reservation. These are null for processors and GPUs, of which no
    other number is recommended.
    """

    jobs: int
    requested_hours: float
    used_hours: float
    requests_repeated_hours: float | None
    reserved_hours: float | None
    repeated_hours: float | None
    freed_hours: float | None
    freed_share: float | None
    needed_more: int | None
    ran_out: int | None
    would_run_out: int | None


class SavingsRow(Saved):
    """Savings by recommended requests in one user's jobs, and the recommended request of the next one.

    ``name`` is the user, application, queue, account or cluster of the row. ``application`` is the one that left most
    unused, and ``like_job`` the last of its jobs, which requested ``asked_for``: a similar job should request
    ``recommended``, for the whole job, in bytes or seconds. ``ask_for`` is the same if it differs from the request,
    else ``kept`` says why. ``more`` is an application of the row that needs more than it requests: this one, or one
    with most jobs that did.
    """

    cluster: str
    name: str
    user: str
    application: str
    like_job: str | None
    asked_for: float | None
    recommended: float | None
    ask_for: float | None
    more: Raise | None = None
    kept: str | None = None


class LeftOut(Record):
    """Excluded jobs, each counted once, by their missing value."""

    without_use: int
    without_request: int
    without_bound: int


REASONS = {
    "without_request": "without a request",
    "without_use": "whose use is unknown or only a lower bound",
    "without_bound": "submitted before there was a recommendation",
}
"""Why jobs are left out, in words."""


_Name = tuple[str, str]
"""Cluster, and name of a group there."""


def _order(row: tuple[_Name, JobSums]) -> tuple[float, float, float, _Name]:
    """Return the sort key: largest unused request first, then most jobs that ran out, then name."""
    name, of = row
    return of.used - of.requested, -of.request_failures, of.bound_held - of.request_held, name


_Application = tuple[str, str, str]
"""Cluster, user and application."""


class Asking:
    """Recommends requests for jobs like the last ones of users' applications; reads each application's jobs once."""

    def __init__(self, connection: Connection, reader: AnswerReader) -> None:
        self.connection = connection
        self._reader = reader
        self.runs = cache(partial(last_runs, connection))
        self.like = cache(self._like)
        self._advised: dict[_Application, tuple[LastRun, Recommendation] | None] = {}

    def last_of(
        self, cluster: str, user: str, application: str, processors: int, metric: str, asked_for: float
    ) -> LastRun | None:
        """Return the last run of the application on as many processors with this request; None if too long ago."""
        for run in self.runs(cluster, user, application):
            if run.processors == processors and run.requested(metric) == asked_for:
                return run
        return None

    def _like(self, cluster: str, user: str, like: LastRun) -> Recommendation:
        """Return the recommendation for a job like this one."""
        return recommend(self.connection, self._reader, cluster, *asked_as(self.connection, user, like))

    def of(self, cluster: str, user: str, application: str) -> tuple[LastRun, Recommendation] | None:
        """Return the last job of this application, and the recommendation for one like it; None if too long ago."""
        self.prepare([(cluster, user, application)])
        return self._advised[cluster, user, application]

    def prepare(self, applications: Iterable[_Application]) -> None:
        """Read together what ``of`` returns for these."""
        likes = {one: self._last(*one) for one in dict.fromkeys(applications) if one not in self._advised}
        known = {one: like for one, like in likes.items() if like is not None}
        asked = [(one[0], *asked_as(self.connection, one[1], like)) for one, like in known.items()]
        found = recommend_each(self.connection, self._reader, asked) if asked else []
        self._advised |= dict.fromkeys(likes) | dict(zip(known, zip(known.values(), found, strict=True), strict=True))

    def _last(self, cluster: str, user: str, application: str) -> LastRun | None:
        is_of_all = application in ("", OTHER)
        for at_most in (1, LOOKED_AT):  # only long names are looked for among others
            read = partial(last_runs, self.connection, cluster, user, at_most=at_most)
            for like in ([] if is_of_all else read(application)) or read():
                if is_of_all or application == group_name(cluster, user, like.application, None, None).application:
                    return like
        return None


def counted_applications(
    connection: Connection, by: str, user: str, metric: str, days: Days, group: _Name, sums: JobSums
) -> list[tuple[_Name, JobSums]]:
    """Return the sums of this user's applications with counted jobs in a group, in the order of their advice."""
    is_one = by == "application"
    found = {group: sums} if is_one else sums_of_user(connection, metric, days, "application", group[0], user)
    return sorted(((each, of) for each, of in found.items() if of.jobs), key=_order)


def saving_row(
    asking: Asking,
    user: str,
    metric: str,
    group: _Name,
    sums: JobSums,
    counted: Sequence[tuple[_Name, JobSums]],
) -> SavingsRow:
    """Return the advice for a group with these sums of this user's jobs, whose applications are ``counted``."""
    cluster, name = group
    (_, application), _ = counted[0]
    like_job, asked_for, recommended, kept = _recommended(asking, metric, cluster, user, application)
    return SavingsRow(
        **saved_amounts(sums, metric)._asdict(),
        cluster=cluster,
        name=name,
        user=user,
        application=application,
        like_job=like_job,
        asked_for=asked_for,
        recommended=recommended,
        ask_for=None if recommended == asked_for else recommended,
        more=_more(asking, metric, user, counted),
        kept=kept,
    )


def _recommended(
    asking: Asking, metric: str, cluster: str, user: str, application: str
) -> tuple[str | None, float | None, float | None, str | None]:
    """Return the last job of an application, its request, the recommendation for one like it, and why it is kept."""
    advised = asking.of(cluster, user, application)
    if advised is None:
        return None, None, None, None
    like, recommendation = advised
    resource = next(resource for resource in ASKED_FOR if resource == metric)
    kept = recommendation.decisions[resource].kept
    return like.job_id, like.requested(metric), recommendation.best(resource), kept and KEPT[kept]


def _more(asking: Asking, metric: str, user: str, applications: Sequence[tuple[_Name, JobSums]]) -> Raise | None:
    """Return the application that must request more: the first, or one of the ``TRIED`` with most jobs that did."""
    needed_more = sorted((row for row in applications if row[1].needed_more), key=lambda row: -row[1].needed_more)
    for (cluster, name), sums in (applications[0], *needed_more[:TRIED]):
        like_job, asked_for, best, _ = _recommended(asking, metric, cluster, user, name)
        if like_job and asked_for and best and best > asked_for:
            return Raise(name, like_job, asked_for, best, int(sums.jobs), int(sums.needed_more))
    return None


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
) -> list[Any]:
    """Return cluster and name of each group of the level, or of these, with the sums of some ``COLUMNS``.

    Of the level "group" the name is two columns, user and application, with a row for each of its queues and accounts.
    """
    names = 'g."user", g.application' if level == "group" else f'g."{level}"'
    of_groups = "" if ids is None else f" AND s.group_id IN ({', '.join(map(str, ids)) or 'NULL'})"
    # By group first: its names are looked up once, not for each day.
    query = (
        f"WITH asked(period, first_day) AS (VALUES {_values(days)}), by_group AS "
        f"(SELECT s.group_id, {sums_as(columns)} FROM asked CROSS JOIN savings s "
        f"WHERE {_IN_PERIODS}{of_groups} GROUP BY s.group_id) "
        f"SELECT g.cluster, {names}, {', '.join(columns)} "
        "FROM by_group JOIN savings_groups g ON g.id = by_group.group_id"
    )
    of_cluster = "" if cluster is None else " WHERE g.cluster = ?"
    return fetch(connection, query + of_cluster, (metric, level, *([] if cluster is None else [cluster])))


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
) -> dict[_Name, JobSums]:
    """Return the sums by any column of the groups, for one user, by look-ups of the user's groups alone."""
    query = (
        f'WITH asked(period, first_day) AS (VALUES {_values(days)}) SELECT g.cluster, g."{noun}" AS name, '
        f"{sums_as(COLUMNS)} FROM savings_groups g CROSS JOIN asked CROSS JOIN savings s WHERE {_IN_PERIODS} "
        'AND s.group_id = g.id AND g.cluster = ? AND g."user" = ? GROUP BY 1, 2'
    )
    rows = fetch(connection, query, (metric, "group", cluster, user))
    return {(place, name): JobSums._make(sums) for place, name, *sums in rows}


def periods_of(days: Days) -> list[tuple[str, int]]:
    """Return the months within the days, and each day before and after these, by their first day.

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


@lru_cache(64)
def _values(days: Days) -> str:
    return ", ".join(f"('{period}', {first_day})" for period, first_day in periods_of(days))
