"""How long a share of the jobs waited at most: from stored counts of jobs by how long they waited, by queue and day."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, cast, func, select, true

from jobsight_server.savings.sums.kept import longest_wait_s
from jobsight_server.storage.schema import savings_groups, waits


def waited_at_most_s(
    connection: Connection,
    name: ColumnElement[Any],
    period: str,
    days: tuple[int, int],
    cluster: str | None,
    tenths: int = 5,
) -> dict[Any, float]:
    """Return by ``name``, a column of ``waits`` or of their groups, how long so many tenths of the jobs waited at most:
    half of them by default."""
    number, jobs = cast(waits.c.metric, Integer).label("number"), func.sum(waits.c.jobs)
    of_class = (
        select(
            name.label("name"),
            number,
            func.sum(jobs).over(partition_by=name, order_by=number).label("so_far"),
            func.sum(jobs).over(partition_by=name).label("of_all"),
        )
        .join(savings_groups, savings_groups.c.id == waits.c.group_id)
        .where(waits.c.level == "queue", waits.c.period == period, waits.c.first_day.between(*days))
        .where(true() if cluster is None else savings_groups.c.cluster == cluster)
        .group_by(name, number)
        .subquery()
    )
    some = 10 * of_class.c.so_far >= tenths * of_class.c.of_all
    query = select(of_class.c.name, func.min(of_class.c.number).label("number")).where(some).group_by(of_class.c.name)
    return {row.name: longest_wait_s(row.number) for row in connection.execute(query)}
