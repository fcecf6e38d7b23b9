"""Users: how much is known of each, how well it can be forecast, and one user's whole history."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Subquery, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts import AnswerReader, Question, history
from jobsight_server.forecasts.learn import Key
from jobsight_server.storage.schema import jobs, series

PAGE_SIZE = 50
HISTORY_LISTED = 500
SORTS = ("user", "cluster", "jobs", "last_end")


def user_list(
    connection: Connection,
    reader: AnswerReader,
    cluster: str | None = None,
    search: str | None = None,
    page: int = 1,
    sort: str = "user",
    descending: bool = False,
) -> dict[str, Any]:
    """One page of users that ran a job, each with the answer per metric (None before anything was learned).

    ``search`` keeps the users whose name contains it, in any case. ``sort`` is one of ``SORTS`` or
    ``METRIC:FIELD`` with a field of the answer that is a number (``bandwidth:pqm``); users without it come last.
    """
    grouped = _grouped(cluster, search)
    total = connection.scalar(select(func.count()).select_from(grouped)) or 0
    metric, colon, field = sort.partition(":")
    window = slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)
    if colon:
        rows = [dict(row) for row in connection.execute(select(grouped)).mappings()]
        rows = _by_answer(rows, reader.series_figures(connection, cluster, metric), field, descending)[window]
    else:
        column = grouped.c[sort if sort in SORTS else "user"]
        order = (column.desc() if descending else column.asc(), grouped.c.user, grouped.c.cluster)
        query = select(grouped).order_by(*order).limit(PAGE_SIZE).offset(window.start)
        rows = [dict(row) for row in connection.execute(query).mappings()]
    known = reader.learned(connection, [(row["cluster"], row["user"]) for row in rows])
    for row in rows:
        row["metrics"] = {name: known.get(Key(row["cluster"], row["user"], name)) for name in METRICS}
    return {
        "users": rows,
        "page": page,
        "pages": max(1, -(-total // PAGE_SIZE)),
        "total": total,
        "sort": sort,
        "descending": descending,
        "search": search,
    }


def user_clusters(connection: Connection, user: str) -> list[str]:
    """The clusters on which this user ran a job or has a history."""
    ran = select(jobs.c.cluster).where(jobs.c.user == user)
    learned = select(series.c.cluster).where(series.c.user == user)
    return sorted(row[0] for row in connection.execute(ran.union(learned)))


def user_profile(
    connection: Connection, reader: AnswerReader, cluster: str, user: str, limit: int = HISTORY_LISTED
) -> dict[str, Any] | None:
    """One user: jobs by state, and per metric the present answer and the history of the last ``limit`` jobs.

    None where the cluster knows no such user.
    """
    query = select(jobs.c.state, func.count(), func.max(jobs.c.end)).where(
        jobs.c.cluster == cluster, jobs.c.user == user
    )
    states = connection.execute(query.group_by(jobs.c.state)).all()
    if not states and cluster not in user_clusters(connection, user):
        return None
    present = reader.answers(connection, [Question(cluster, user, metric) for metric in METRICS])
    return {
        "cluster": cluster,
        "user": user,
        "jobs": {state: count for state, count, _ in states},
        "last_end": max((end for _, _, end in states if end is not None), default=None),
        "metrics": [
            {**answer, "history": history(connection, cluster, user, answer["metric"], limit)} for answer in present
        ],
    }


def _grouped(cluster: str | None, search: str | None) -> Subquery:
    query = select(
        jobs.c.cluster,
        jobs.c.user,
        func.count().label("jobs"),
        func.min(jobs.c.start).label("first_start"),
        func.max(jobs.c.end).label("last_end"),
    ).group_by(jobs.c.cluster, jobs.c.user)
    if cluster is not None:
        query = query.where(jobs.c.cluster == cluster)
    if search:
        query = query.where(jobs.c.user.icontains(search, autoescape=True))
    return query.subquery()


def _by_answer(
    rows: list[dict[str, Any]], known: dict[tuple[str, str], Any], field: str, descending: bool
) -> list[dict[str, Any]]:
    def value(row: dict[str, Any]) -> float | None:
        found = (known.get((row["cluster"], row["user"])) or {}).get(field)
        return found if isinstance(found, int | float) else None

    with_value = [(v, row) for row in rows if (v := value(row)) is not None]
    with_value.sort(key=lambda pair: (-pair[0] if descending else pair[0], pair[1]["user"], pair[1]["cluster"]))
    without = sorted(
        (row for row in rows if value(row) is None), key=lambda row: (str(row["user"]), str(row["cluster"]))
    )
    return [row for _, row in with_value] + without
