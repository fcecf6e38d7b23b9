"""Savings by the recommendations, and the next request (docs/use/definitions.md, Savings)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial

from sqlalchemy import Connection

from jobsight_server.advice.recommendation import Recommendation, asked_as, recommend, recommend_each
from jobsight_server.advice.words import KEPT
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.last_runs import LOOKED_AT, LastRun, last_runs
from jobsight_server.ground.answers import Record
from jobsight_server.savings.sums.add import JobSums
from jobsight_server.savings.sums.kept import OTHER, group_name
from jobsight_server.savings.sums.read import Days, saved_amounts, sums_of_user

BY = ("user", "application", "queue", "account", "cluster")
LISTED = 10

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
    """Recommends requests for jobs like the last ones of users' applications; reads each application's jobs once, and
    the sums of each user."""

    def __init__(self, connection: Connection, reader: AnswerReader) -> None:
        self.connection = connection
        self._reader = reader
        self.runs = cache(partial(last_runs, connection))
        self.sums_of_user = cache(partial(sums_of_user, connection))
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
    asking: Asking, by: str, user: str, metric: str, days: Days, group: _Name, sums: JobSums
) -> list[tuple[_Name, JobSums]]:
    """Return the sums of this user's applications with counted jobs in a group, in the order of their advice."""
    is_one = by == "application"
    found = {group: sums} if is_one else asking.sums_of_user(metric, days, "application", group[0], user)
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
