"""Users: what each used of the machine in a month, beside the month before."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Connection, case, cast, func, select

from jobsight_server.accounting.runs import QUEUED, RUNNING
from jobsight_server.ground.answers import Record
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.savings.sums.kept import Date, GroupName, date_text, known_ids
from jobsight_server.savings.sums.read import sums_of_all
from jobsight_server.savings.use import Use, months, uses
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import job_counts

_SUMMED = {"processor_hours": "weight", "killed": "request_failures"}
USERS = Listing(
    ("processor_hours", "killed", "user", "cluster", "jobs", "running", "waiting", "last_end"),
    lowest_first=("user", "cluster"),
    steady=("user", "cluster"),
)


class User(Record):
    """A user who ran a job: the number of ``jobs``, how many run and wait now, and the use of the month and of the one
    ``before``, null without a counted job."""

    cluster: str
    user: str
    jobs: int
    running: int
    waiting: int
    last_end: float | None
    month: Use | None
    before: Use | None


class UserList(ListPage):
    """One page of users. The month is the newest thirty days with counted jobs: ``first_day`` to ``last_day``, null
    without one."""

    first_day: Date | None
    last_day: Date | None
    users: list[User]


def user_list(connection: Connection, asked: Asked) -> UserList:
    """Return one page of users who ran a job."""
    spans = months(connection)
    summed: dict[tuple[str, str], float] = {}
    if spans is not None and asked.sort in _SUMMED:
        sums = sums_of_all(connection, "cpu", spans.now, "user", asked.cluster, (_SUMMED[asked.sort],))
        summed = {(cluster, user): amount for cluster, user, amount in sums}

    def value(user: User) -> Any:
        return summed.get((user.cluster, user.user)) if asked.sort in _SUMMED else getattr(user, asked.sort)

    position, users = asked.page_of(_counted(connection, asked), value, lambda user: (user.user, user.cluster))
    ids = known_ids(connection, [GroupName(of.cluster, of.user, "", "", "") for of in users]).values()
    month, before = ({}, {}) if spans is None else (uses(connection, days, "user", ids=ids) for days in spans)
    for of in users:
        of.month, of.before = month.get((of.cluster, of.user)), before.get((of.cluster, of.user))
    first, last = (None, None) if spans is None else map(date_text, spans.now)
    return UserList(*position, first, last, users)


def _counted(connection: Connection, asked: Asked) -> list[User]:
    """Return the users who ran a job, with the numbers of their jobs, without their use."""
    of = job_counts.c

    def number(condition: Any) -> Any:
        return cast(func.sum(case((condition, of.n), else_=0)), BigInteger)

    ran = number(of.state != QUEUED)
    query = select(
        *(of.cluster, of.user, ran.label("jobs"), number(of.state == RUNNING).label("running")),
        *(number(of.state == QUEUED).label("waiting"), func.max(of.last_end).label("last_end")),
    )
    if asked.cluster is not None:
        query = query.where(of.cluster == asked.cluster)
    if asked.search:
        query = query.where(of.user.icontains(asked.search, autoescape=True))
    query = query.group_by(of.cluster, of.user).having(ran > 0)
    return [User(*[*row, None, None]) for row in fetch(connection, query, {})]
