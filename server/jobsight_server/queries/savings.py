"""What the recommended reservations would have freed, and what to request next time (docs/definitions.md, Savings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta
from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.record import Record
from jobsight_server.savings.amounts import COLUMNS, METRICS
from jobsight_server.savings.groups import OTHER
from jobsight_server.savings.read import (
    Days,
    stored_days,
    sums_of_all,
    sums_of_site,
    sums_of_user,
    widened,
)
from jobsight_server.savings.totals import as_date

BY = ("user", "application", "queue", "cluster")
LISTED = 25
DAYS_SHOWN = 30

_UNITS = {"memory": "byte seconds", "runtime": "processor seconds"}
_JOBS, _WEIGHT, _REQUESTED = (COLUMNS.index(name) for name in ("jobs", "weight", "requested"))

Date = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class SavedAmounts(Record):
    """Of ``jobs``: ``requested`` by users, ``used``, and what would have been ``reserved``, in the metric's unit.

    ``freed``: what requests held, less what the recommended reservations would have held, repeats included on both
    sides; ``repeated`` is what the reservations' repeats would have held. ``freed_share`` is of what requests held.
    ``ran_out`` jobs used more than they requested, ``would_run_out`` more than would have been reserved.
    """

    jobs: int
    requested: float
    used: float
    reserved: float
    repeated: float
    freed: float
    freed_share: float | None
    ran_out: int
    would_run_out: int


class SavingsRow(SavedAmounts):
    """One user, application, queue or cluster: ``name``.

    Of a user, ``application`` is the one of which most would be freed: its jobs requested ``asked_for`` in the mean,
    and ``recommended`` is what would be reserved now, bytes per processor or seconds. ``ask_for`` is the same where it
    is better than going on as before: less where that frees something, more where jobs ran out. Null in rows of several
    users' jobs.
    """

    cluster: str
    name: str
    user: str | None
    application: str | None
    asked_for: float | None
    recommended: float | None
    ask_for: float | None


class LeftOut(Record):
    """Jobs that are left out, each counted once, by what they lack."""

    without_use: int
    without_request: int
    without_bound: int


class MetricSavings(Record):
    """One metric: all jobs, and the ``rows`` of which most would be freed, of ``groups``."""

    metric: Annotated[str, Meta(extra_json_schema={"enum": [*METRICS]})]
    unit: str
    total: SavedAmounts
    left_out: LeftOut
    groups: int
    rows: list[SavingsRow]


class Savings(Record):
    """Of the jobs that ended from ``first_day`` to ``last_day`` (UTC); null where no job of these days is counted."""

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


def savings(connection: Connection, reader: AnswerReader, request: SavingsRequest) -> Savings:
    """The savings per metric, each sorted by what would be freed.

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
            _of_metric(connection, reader, request, metric, days and stored and widened(days, stored))
            for metric in METRICS
        ],
    )


def site_savings(connection: Connection) -> SiteSavings:
    """What could be saved lately, in a few figures."""
    stored = stored_days(connection)
    if stored is None:
        nothing = SavedAmounts(**_amounts([0.0] * len(COLUMNS)))
        return SiteSavings(None, None, nothing, nothing)
    first, last = max(stored.last - DAYS_SHOWN + 1, stored.first), stored.last
    memory, runtime = (
        SavedAmounts(**_amounts(sums_of_site(connection, metric, widened(Days(first, last), stored))))
        for metric in METRICS
    )
    return SiteSavings(as_date(first).isoformat(), as_date(last).isoformat(), memory, runtime)


def _days(request: SavingsRequest, stored: Days) -> Days | None:
    last = stored.last if request.last is None else min(request.last, stored.last)
    first = last - DAYS_SHOWN + 1 if request.first is None else request.first
    found = Days(max(first, stored.first), last)
    return found if found.first <= found.last else None


def _of_metric(
    connection: Connection, reader: AnswerReader, request: SavingsRequest, metric: str, days: Days | None
) -> MetricSavings:
    if days is None:
        found = []
    elif request.user is None or request.cluster is None:
        found = sums_of_all(connection, metric, days, request.by, request.cluster)
    else:
        found = sums_of_user(connection, metric, days, request.by, request.cluster, request.user)
    total = [float(sum(column)) for column in zip(*(row[2:] for row in found), strict=True)] or [0.0] * len(COLUMNS)
    rows = [({"cluster": row[0], "name": row[1], **_amounts(row[2:])}, row[2:]) for row in found if row[2 + _JOBS]]
    rows.sort(key=lambda entry: _order(entry[0]))
    listed = [row for row, _ in rows[: request.limit]]
    advised = [
        None if days is None else _advised(connection, request, metric, days, row, sums)
        for row, sums in rows[: request.limit]
    ]
    recommended = _recommended(connection, reader, metric, advised)
    return MetricSavings(
        metric=metric,
        unit=_UNITS[metric],
        total=SavedAmounts(**_amounts(total)),
        left_out=LeftOut(**{name: int(total[COLUMNS.index(name)]) for name in LeftOut.__struct_fields__}),
        groups=len(rows),
        rows=[_row(*each) for each in zip(listed, advised, recommended, strict=True)],
    )


def _order(row: dict[str, Any]) -> tuple[float, float, float, str, str]:
    """Most freed first; of those alike the one that ran out most often, then with most to spare, then by name."""
    return -row["freed"], -row["ran_out"], row["used"] - row["requested"], row["cluster"], row["name"]


class RowAdvice(NamedTuple):
    """Whose request a row's advice is for, what it was in the mean, and what came of it."""

    cluster: str
    user: str
    application: str
    asked_for: float | None
    freed: float
    ran_out: int

    def is_better(self, recommended: float | None) -> bool:
        """Whether asking for this is better than going on as before."""
        if recommended is None or self.asked_for is None:
            return False
        return self.freed > 0 if recommended < self.asked_for else self.ran_out > 0


def _advised(
    connection: Connection,
    request: SavingsRequest,
    metric: str,
    days: Days,
    row: dict[str, Any],
    sums: Sequence[float],
) -> RowAdvice | None:
    """Of a row of one user's jobs, the first of its applications; there is no advice for several users at once."""
    user = row["name"] if request.by == "user" else request.user
    if user is None:
        return None
    if request.by != "application":
        found = sums_of_user(connection, metric, days, "application", row["cluster"], user)
        counted = [each for each in found if each[2 + _JOBS]]
        rows = [({"cluster": each[0], "name": each[1], **_amounts(each[2:])}, each[2:]) for each in counted]
        row, sums = min(rows, key=lambda entry: _order(entry[0]))
    asked_for = sums[_REQUESTED] / sums[_WEIGHT] if sums[_WEIGHT] else None
    return RowAdvice(row["cluster"], user, row["name"], asked_for, row["freed"], row["ran_out"])


def _row(row: dict[str, Any], advised: RowAdvice | None, recommended: float | None) -> SavingsRow:
    return SavingsRow(
        **row,
        user=advised and advised.user,
        application=advised and advised.application,
        asked_for=advised and advised.asked_for,
        recommended=recommended,
        ask_for=recommended if advised is not None and advised.is_better(recommended) else None,
    )


def _amounts(sums: Iterable[float]) -> dict[str, Any]:
    of = {name: float(value) for name, value in zip(COLUMNS, sums, strict=True)}
    freed, held = of["request_held"] - of["bound_held"], of["request_held"]
    return {
        "jobs": int(of["jobs"]),
        "requested": of["requested"],
        "used": of["used"],
        "reserved": of["reserved"],
        "repeated": of["bound_held"] - of["reserved"],
        "freed": freed,
        "freed_share": freed / held if held > 0 else None,
        "ran_out": int(of["request_failures"]),
        "would_run_out": int(of["bound_failures"]),
    }


def _recommended(
    connection: Connection, reader: AnswerReader, metric: str, advised: Sequence[RowAdvice | None]
) -> list[float | None]:
    """What is reserved for a next job of which only the user and the application are known."""
    requests = {
        i: ForecastRequest(each.cluster, Question(user=each.user, application=_application(each)), metric)
        for i, each in enumerate(advised)
        if each is not None
    }
    found = dict(zip(requests, reader.answers(connection, list(requests.values())), strict=True))
    return [found[i].bound if i in found else None for i in range(len(advised))]


def _application(advised: RowAdvice) -> str | None:
    return None if advised.application in ("", OTHER) else advised.application
