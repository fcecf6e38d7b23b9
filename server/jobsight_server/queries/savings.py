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
    whole_months,
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

    Of a user, ``application`` is the one of which most would be freed in these months: its jobs requested
    ``asked_for`` in the mean and should ask for ``ask_for`` now, bytes per processor or seconds. Null in rows of
    several users' jobs.
    """

    cluster: str
    name: str
    user: str | None
    application: str | None
    asked_for: float | None
    ask_for: float | None

    @property
    def is_worth_asking(self) -> bool:
        """Whether ``ask_for`` is better than going on as before: less where it frees something, more after failures."""
        if self.ask_for is None or self.asked_for is None:
            return False
        return self.freed > 0 if self.ask_for < self.asked_for else self.ran_out > 0


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
    listed = [
        row | (_advice(connection, request, metric, days, row, sums) if days is not None else {})
        for row, sums in rows[: request.limit]
    ]
    ask_for = _ask_for(connection, reader, metric, listed)
    return MetricSavings(
        metric=metric,
        unit=_UNITS[metric],
        total=SavedAmounts(**_amounts(total)),
        left_out=LeftOut(**{name: int(total[COLUMNS.index(name)]) for name in LeftOut.__struct_fields__}),
        groups=len(rows),
        rows=[SavingsRow(**row, ask_for=value) for row, value in zip(listed, ask_for, strict=True)],
    )


def _order(row: dict[str, Any]) -> tuple[float, float, str, str]:
    """Most freed first; of those alike the one with most to spare."""
    return -row["freed"], row["used"] - row["requested"], row["cluster"], row["name"]


def _advice(
    connection: Connection,
    request: SavingsRequest,
    metric: str,
    days: Days,
    row: dict[str, Any],
    sums: Sequence[float],
) -> dict[str, Any]:
    """Whose request a row's advice is for, and what it was in the mean; there is none for several users at once."""
    user = row["name"] if request.by == "user" else request.user
    if user is None:
        return {"user": None, "application": None, "asked_for": None}
    application = row["name"]
    if request.by != "application":
        found = sums_of_user(connection, metric, whole_months(days), "application", row["cluster"], user)
        counted = [each for each in found if each[2 + _JOBS]]
        _, application, *sums = max(counted, key=lambda each: (_freed(each[2:]), each[2 + _REQUESTED]))
    asked_for = sums[_REQUESTED] / sums[_WEIGHT] if sums[_WEIGHT] else None
    return {"user": user, "application": application, "asked_for": asked_for}


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


def _freed(sums: Sequence[float]) -> float:
    return sums[COLUMNS.index("request_held")] - sums[COLUMNS.index("bound_held")]


def _ask_for(
    connection: Connection, reader: AnswerReader, metric: str, rows: Sequence[dict[str, Any]]
) -> list[float | None]:
    """What the next job of each row's user with this application should ask for."""
    requests = {
        i: ForecastRequest(row["cluster"], Question(user=row["user"], application=_application(row)), metric)
        for i, row in enumerate(rows)
        if row["user"] is not None
    }
    found = dict(zip(requests, reader.answers(connection, list(requests.values())), strict=True))
    return [found[i].bound if i in found else None for i in range(len(rows))]


def _application(row: dict[str, Any]) -> str | None:
    return None if row["application"] in ("", OTHER) else row["application"]
