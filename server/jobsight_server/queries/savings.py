"""What the recommendations would have freed, and what to request next time (docs/use/definitions.md, Savings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import truediv
from typing import Any

from sqlalchemy import Connection

from jobsight_server.advice.recommendation import Recommendation, recommend_as_last
from jobsight_server.advice.such_jobs import SuchJob, last_runs
from jobsight_server.facts import application as application_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.record import Record
from jobsight_server.savings.groups import OTHER, group_name
from jobsight_server.savings.read import Days, sums_of_user
from jobsight_server.savings.totals import AMOUNTS, COLUMNS

BY = ("user", "application", "queue", "account", "cluster")
LISTED = 25

# Of the columns of sums: amounts are shown in GiB-hours and processor-hours, jobs as they are.
_DIVISORS = {
    metric: tuple(unit if name in AMOUNTS else 1.0 for name in COLUMNS)
    for metric, unit in (("memory", 2.0**30 * 3600.0), ("runtime", 3600.0))
}

_JOBS = COLUMNS.index("jobs")


class SavingsRow(Record):
    """What recommended requests would have saved of one user's jobs, and what the next one should ask for.

    ``name`` is the user, application, queue, account or cluster of the row; the amounts, in GiB-hours or
    processor-hours, and counts are those of ``Waste``. ``application`` is the one that left most unused, and
    ``like_job`` the last of its jobs, which asked for ``asked_for``: such a job should ask for ``recommended``, of the
    whole job, in bytes or seconds. ``ask_for`` is the same where that is another amount.
    """

    jobs: int
    requested_hours: float
    used_hours: float
    reserved_hours: float
    repeated_hours: float
    freed_hours: float
    ran_out: int
    would_run_out: int
    cluster: str
    name: str
    user: str
    application: str
    like_job: str | None
    asked_for: float | None
    recommended: float | None
    ask_for: float | None


class LeftOut(Record):
    """Jobs that are left out, each counted once, by what they lack."""

    without_use: int
    without_request: int
    without_bound: int


def _order(row: Sequence[Any]) -> tuple[float, float, float, str, str]:
    """Sorts by what was requested and left unused, largest first; then by how often jobs ran out, then by name."""
    cluster, name, *sums = row
    of = dict(zip(COLUMNS, sums, strict=True))
    freed = of["request_held"] - of["bound_held"]
    return of["used"] - of["requested"], -of["request_failures"], -freed, cluster, name


class Asking:
    """Asks what jobs like the last ones of users' applications should ask for; each user's are read once."""

    def __init__(self, connection: Connection, reader: AnswerReader) -> None:
        self._connection = connection
        self._reader = reader
        self._runs: dict[tuple[str, str], list[SuchJob]] = {}
        self._found: dict[tuple[str, str, str], tuple[SuchJob, Recommendation] | None] = {}

    def of(self, cluster: str, user: str, application: str) -> tuple[SuchJob, Recommendation] | None:
        """The last job of this application, and the recommendation for one like it; None if it is too long ago."""
        key = (cluster, user, application)
        if key not in self._found:
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
            self._found[key] = like and (
                like, recommend_as_last(self._connection, self._reader, cluster, user, like, runs)
            )  # fmt: skip
        return self._found[key]


def saving_row(
    connection: Connection, asking: Asking, by: str, user: str, metric: str, days: Days, row: Sequence[Any]
) -> SavingsRow:
    """Of a row of sums of this user's jobs, with its cluster and name before them."""
    cluster, name, *sums = row
    application = name
    if by != "application":
        found = sums_of_user(connection, metric, days, "application", cluster, user)
        application = min((each for each in found if each[2 + _JOBS]), key=_order)[1]
    advised = asking.of(cluster, user, application)
    like_job = asked_for = recommended = None
    if advised:
        like, recommendation = advised
        like_job, asked_for = like.job_id, like.requested(metric)
        recommended = recommendation.best(metric)
    return SavingsRow(
        **saved_amounts(sums, metric),
        cluster=cluster,
        name=name,
        user=user,
        application=application,
        like_job=like_job,
        asked_for=asked_for,
        recommended=recommended,
        ask_for=None if recommended == asked_for else recommended,
    )


def saved_amounts(sums: Iterable[float], metric: str) -> dict[str, Any]:
    """The amounts and counts of ``SavingsRow``, from sums in the order of ``COLUMNS``."""
    of = dict(zip(COLUMNS, map(truediv, sums, _DIVISORS[metric]), strict=True))
    return {
        "jobs": int(of["jobs"]),
        "requested_hours": of["requested"],
        "used_hours": of["used"],
        "reserved_hours": of["reserved"],
        "repeated_hours": of["bound_held"] - of["reserved"],
        "freed_hours": of["request_held"] - of["bound_held"],
        "ran_out": int(of["request_failures"]),
        "would_run_out": int(of["bound_failures"]),
    }
