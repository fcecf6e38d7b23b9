"""What the recommendations would have freed, and what to request next time (docs/use/definitions.md, Savings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import truediv
from typing import Annotated, Any, NamedTuple

from msgspec import Meta
from sqlalchemy import Connection

from jobsight_server.advice.recommendation import Recommendation, recommend_as_last
from jobsight_server.advice.such_jobs import SuchJob, last_runs
from jobsight_server.facts import application as application_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.record import Record
from jobsight_server.savings.groups import OTHER, group_name
from jobsight_server.savings.kept import as_date
from jobsight_server.savings.read import (
    Days,
    stored_days,
    sums_of_all,
    sums_of_site,
    sums_of_user,
    widened,
)
from jobsight_server.savings.totals import AMOUNTS, COLUMNS, METRICS

BY = ("user", "application", "queue", "account", "cluster")
LISTED = 25
DAYS_SHOWN = 30

_UNITS = {"memory": ("GiB-hours", 2.0**30 * 3600.0), "runtime": ("processor-hours", 3600.0)}
"""The unit in which each metric's amounts are shown, in stored units."""
# Of the columns of sums: amounts are shown in hours, jobs as they are.
_DIVISORS = {
    metric: tuple(unit if name in AMOUNTS else 1.0 for name in COLUMNS) for metric, (_, unit) in _UNITS.items()
}

_JOBS = COLUMNS.index("jobs")

Date = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class SavedAmounts(Record):
    """Of ``jobs``, in the metric's unit: what users requested, what was used, and what would have been reserved.

    ``freed_hours``: what was requested, as it ran, less what the recommended reservations would have held, with all
    attempts of the jobs that would have run out, whose further ones are ``repeated_hours``; negative where they would
    have held more. ``freed_share`` is of what was requested. Processors are given back at a job's end whatever its
    limit: of run time, ``freed_hours`` is what limits could have been shorter.
    ``ran_out`` jobs used more than they requested, ``would_run_out`` more than would have been reserved.
    """

    jobs: int
    requested_hours: float
    used_hours: float
    reserved_hours: float
    repeated_hours: float
    freed_hours: float
    freed_share: float | None
    ran_out: int
    would_run_out: int


class SavingsRow(SavedAmounts):
    """One user, application, queue or cluster: ``name``.

    Of a user, ``application`` is the one that left most unused, and ``like_job`` the last of its jobs, which
    asked for ``asked_for``: such a job should ask for ``recommended``, of the whole job, in bytes or seconds.
    ``ask_for`` is the same where that is another amount. Null in rows of several users' jobs.
    """

    cluster: str
    name: str
    user: str | None
    application: str | None
    like_job: str | None
    asked_for: float | None
    recommended: float | None
    ask_for: float | None


class LeftOut(Record):
    """Jobs that are left out, each counted once, by what they lack."""

    without_use: int
    without_request: int
    without_bound: int


class MetricSavings(Record):
    """One metric: all jobs, and the ``rows`` that left most unused, of ``groups``."""

    metric: Annotated[str, Meta(extra_json_schema={"enum": [*METRICS]})]
    unit: str
    total: SavedAmounts
    left_out: LeftOut
    groups: int
    rows: list[SavingsRow]


class Savings(Record):
    """Of jobs that ended from ``first_day`` to ``last_day`` (UTC); null if none of them is counted."""

    by: str
    cluster: str | None
    user: str | None
    first_day: Date | None
    last_day: Date | None
    metrics: list[MetricSavings]


class SiteSavings(Record):
    """All clusters together, over the last ``DAYS_SHOWN`` days of which a job is counted."""

    first_day: Date | None
    last_day: Date | None
    memory: SavedAmounts
    runtime: SavedAmounts


class SavingsRequest(NamedTuple):
    """Which jobs are meant, and how many rows; days count from 1970-01-01, None where none was named.

    A ``user`` is one of the ``cluster``, which must then be named.
    """

    by: str = BY[0]
    cluster: str | None = None
    user: str | None = None
    first: int | None = None
    last: int | None = None
    limit: int = LISTED


def savings(connection: Connection, asking: Asking, request: SavingsRequest) -> Savings:
    """The savings per metric, each sorted by what was requested and not used.

    Without a last day until the newest day of which a job is counted, without a first day the ``DAYS_SHOWN`` days
    until then.
    """
    stored = stored_days(connection)
    days = None if stored is None else _days(request, stored)
    return Savings(
        by=request.by,
        cluster=request.cluster,
        user=request.user,
        first_day=None if days is None else as_date(days.first).isoformat(),
        last_day=None if days is None else as_date(days.last).isoformat(),
        metrics=[
            _of_metric(connection, request, metric, days and stored and widened(days, stored), asking)
            for metric in METRICS
        ],
    )


def site_savings(connection: Connection) -> SiteSavings:
    """Recent savings, in a few figures."""
    stored = stored_days(connection)
    if stored is None:
        memory, runtime = (SavedAmounts(**saved_amounts([0.0] * len(COLUMNS), metric)) for metric in METRICS)
        return SiteSavings(None, None, memory, runtime)
    first, last = max(stored.last - DAYS_SHOWN + 1, stored.first), stored.last
    memory, runtime = (
        SavedAmounts(**saved_amounts(sums_of_site(connection, metric, widened(Days(first, last), stored)), metric))
        for metric in METRICS
    )
    return SiteSavings(as_date(first).isoformat(), as_date(last).isoformat(), memory, runtime)


def _days(request: SavingsRequest, stored: Days) -> Days | None:
    last = stored.last if request.last is None else min(request.last, stored.last)
    first = last - DAYS_SHOWN + 1 if request.first is None else request.first
    found = Days(max(first, stored.first), last)
    return found if found.first <= found.last else None


def _of_metric(
    connection: Connection, request: SavingsRequest, metric: str, days: Days | None, asking: Asking
) -> MetricSavings:
    if days is None:
        found = []
    elif request.user is None or request.cluster is None:
        found = sums_of_all(connection, metric, days, request.by, request.cluster)
    else:
        found = sums_of_user(connection, metric, days, request.by, request.cluster, request.user)
    total = [float(sum(column)) for column in zip(*(row[2:] for row in found), strict=True)] or [0.0] * len(COLUMNS)
    rows = sorted((row for row in found if row[2 + _JOBS]), key=_order)
    return MetricSavings(
        metric=metric,
        unit=_UNITS[metric][0],
        total=SavedAmounts(**saved_amounts(total, metric)),
        left_out=LeftOut(**{name: int(total[COLUMNS.index(name)]) for name in LeftOut.__struct_fields__}),
        groups=len(rows),
        rows=[
            saving_row(row, metric, days and advised_for(connection, request, metric, days, row), asking)
            for row in rows[: request.limit]
        ],
    )


def _order(row: Sequence[Any]) -> tuple[float, float, float, str, str]:
    """Sorts by what was requested and left unused, largest first; then by how often jobs ran out, then by name."""
    cluster, name, *sums = row
    of = dict(zip(COLUMNS, sums, strict=True))
    freed = of["request_held"] - of["bound_held"]
    return of["used"] - of["requested"], -of["request_failures"], -freed, cluster, name


class AdvisedJobs(NamedTuple):
    """The jobs that a row's advice is about."""

    cluster: str
    user: str
    application: str


class Asking:
    """Asks what jobs like the last ones of users' applications should ask for; each user's are read once."""

    def __init__(self, connection: Connection, reader: AnswerReader) -> None:
        self._connection = connection
        self._reader = reader
        self._runs: dict[tuple[str, str], list[SuchJob]] = {}
        self._found: dict[AdvisedJobs, tuple[SuchJob, Recommendation] | None] = {}

    def of(self, advised: AdvisedJobs) -> tuple[SuchJob, Recommendation] | None:
        """The last job of this application, and the recommendation for one like it; None if it is too long ago."""
        if advised not in self._found:
            cluster, user, application = advised
            if (cluster, user) not in self._runs:
                self._runs[cluster, user] = last_runs(self._connection, cluster, user)
            runs = self._runs[cluster, user]
            names = ((run, run.name and application_of(run.name)) for run in runs)
            any_will_do = application in ("", OTHER)
            like = next(
                (
                    run
                    for run, name in names
                    if any_will_do or group_name(cluster, user, name, None, None).application == application
                ),
                None,
            )
            self._found[advised] = like and (
                like, recommend_as_last(self._connection, self._reader, cluster, user, like, runs)
            )  # fmt: skip
        return self._found[advised]


def advised_for(
    connection: Connection, request: SavingsRequest, metric: str, days: Days, row: Sequence[Any]
) -> AdvisedJobs | None:
    """The first application of a row of one user's jobs; there is no advice for several users at once."""
    cluster, name = row[:2]
    user = name if request.by == "user" else request.user
    if user is None:
        return None
    if request.by != "application":
        found = sums_of_user(connection, metric, days, "application", cluster, user)
        row = min((each for each in found if each[2 + _JOBS]), key=_order)
    return AdvisedJobs(cluster, user, row[1])


def saving_row(row: Sequence[Any], metric: str, advised: AdvisedJobs | None, asking: Asking) -> SavingsRow:
    found = advised and asking.of(advised)
    like_job = asked_for = recommended = None
    if found:
        like, recommendation = found
        like_job, asked_for = like.job_id, like.requested(metric)
        recommended = recommendation.best(metric)
    return SavingsRow(
        cluster=row[0],
        name=row[1],
        **saved_amounts(row[2:], metric),
        user=advised and advised.user,
        application=advised and advised.application,
        like_job=like_job,
        asked_for=asked_for,
        recommended=recommended,
        ask_for=None if recommended == asked_for else recommended,
    )


def saved_amounts(sums: Iterable[float], metric: str) -> dict[str, Any]:
    of = dict(zip(COLUMNS, map(truediv, sums, _DIVISORS[metric]), strict=True))
    freed, held = of["request_held"] - of["bound_held"], of["request_held"]
    return {
        "jobs": int(of["jobs"]),
        "requested_hours": of["requested"],
        "used_hours": of["used"],
        "reserved_hours": of["reserved"],
        "repeated_hours": of["bound_held"] - of["reserved"],
        "freed_hours": freed,
        "freed_share": freed / held if held > 0 else None,
        "ran_out": int(of["request_failures"]),
        "would_run_out": int(of["bound_failures"]),
    }
