"""The queue: jobs that wait and how long jobs waited, by queue and day; the use of the machine by day, month, account.

From stored sums: jobs are counted on the day on which they ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, cast, func, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.ground.answers import Record
from jobsight_server.savings.kept_sums import Date, date_text, month_of
from jobsight_server.savings.savings import Days, sums_by
from jobsight_server.savings.use import Months, Use, months, uses
from jobsight_server.storage.schema import jobs

_MONTHS = 12
_LISTED = 15
_LONGEST_MONTH = 31
_HOUR_S = 3600.0


class PeriodUse(Record):
    """The day, or the month, from this day on: jobs that ended in it, the processor-hours that they held, and how long
    they waited on average."""

    first_day: Date
    jobs: int
    processor_hours: float
    waited_s: float | None


class WaitedOn(Record):
    """How long jobs that ended on a day had waited on average."""

    day: Date
    waited_s: float


class QueueRow(Record):
    """A queue of all clusters asked for: jobs that wait now, the processors that they ask for and the longest wait; the
    average wait of the month and of the one before, and by day."""

    queue: str
    waiting: int
    processors: int
    longest_s: float | None
    waited_s: float | None
    before_waited_s: float | None
    days: list[WaitedOn]


class AccountUse(Record):
    """What an account used in the month and in the one before, null without a job."""

    cluster: str
    account: str
    month: Use | None
    before: Use | None


class Queue(Record):
    """The month is the newest thirty days with counted jobs: ``first_day`` to ``last_day``, null without one.
    ``accounts``: those with most processor-hours in it."""

    now: float
    cluster: str | None
    first_day: Date | None
    last_day: Date | None
    waiting: int
    queues: list[QueueRow]
    days: list[PeriodUse]
    months: list[PeriodUse]
    accounts: list[AccountUse]


def queue(connection: Connection, now: float, cluster: str | None = None) -> Queue:
    """Return the queues and the use of one cluster, or of all."""
    spans, waiting = months(connection), _waiting(connection, cluster)
    queues = _queues(connection, now, spans, waiting, cluster)
    first, last = (None, None) if spans is None else map(date_text, spans.now)
    year = spans and Days(month_of(spans.now.last - _LONGEST_MONTH * (_MONTHS - 1)), spans.now.last)
    return Queue(
        now=now,
        cluster=cluster,
        first_day=first,
        last_day=last,
        waiting=sum(row.waiting for row in queues),
        queues=queues,
        days=_periods(connection, "day", spans and spans.now, cluster),
        months=_periods(connection, "month", year, cluster),
        accounts=_accounts(connection, spans, cluster),
    )


def _waiting(connection: Connection, cluster: str | None) -> dict[str, Any]:
    """Return the waiting jobs of each queue: how many, their processors, and when the first was submitted."""
    name = func.coalesce(jobs.c.queue, "")
    processors = cast(func.sum(func.coalesce(jobs.c.processors, 1)), BigInteger)
    query = select(name, func.count(), processors, func.min(jobs.c.submitted)).where(jobs.c.state == QUEUED)
    if cluster is not None:
        query = query.where(func.coalesce(jobs.c.cluster, "") == cluster)  # by the state's index: few jobs wait
    return {row[0]: row[1:] for row in connection.execute(query.group_by(name))}


def _queues(
    connection: Connection, now: float, spans: Months | None, waiting: Mapping[str, Any], cluster: str | None
) -> list[QueueRow]:
    of_day: dict[str, dict[int, list[float]]] = defaultdict(dict)
    if spans is not None:
        both = Days(spans.before.first, spans.now.last)
        for name, day, *sums in sums_by(connection, "wait", ("queue", "day"), both, cluster, ("jobs", "used")):
            of_day[name][day] = sums

    def mean(name: str, first: int, last: int) -> float | None:
        sums = [of for day, of in of_day[name].items() if first <= day <= last]
        number = sum(of[0] for of in sums)
        return sum(of[1] for of in sums) / number if number else None

    found = []
    for name in waiting.keys() | of_day.keys():
        number, processors, oldest = waiting.get(name, (0, 0, None))
        month, before = (None, None) if spans is None else (mean(name, *span) for span in spans)
        days = [(day, of) for day, of in of_day[name].items() if spans is not None and day >= spans.now.first]
        found.append(
            QueueRow(
                queue=name,
                waiting=number,
                processors=processors,
                longest_s=None if oldest is None else max(0.0, now - oldest),
                waited_s=month,
                before_waited_s=before,
                days=[WaitedOn(date_text(day), waited_s / number) for day, (number, waited_s) in days if number],
            )
        )
    return sorted(found, key=lambda row: (-row.waiting, -(row.waited_s or 0.0), row.queue))


def _periods(connection: Connection, period: str, days: Days | None, cluster: str | None) -> list[PeriodUse]:
    if days is None:
        return []
    of: dict[int, list[float]] = defaultdict(lambda: [0.0] * 4)
    by, held = ("cluster", period), ("jobs", "without_use", "weight")
    for _, day, counted, left_out, held_s in sums_by(connection, "cpu", by, days, cluster, held):
        of[day][0] += counted + left_out
        of[day][1] += held_s / _HOUR_S
    for _, day, started, waited_s in sums_by(connection, "wait", by, days, cluster, ("jobs", "used")):
        of[day][2] += started
        of[day][3] += waited_s
    return [
        PeriodUse(date_text(day), int(number), hours, waited_s / started if started else None)
        for day, (number, hours, started, waited_s) in sorted(of.items())
    ]


def _accounts(connection: Connection, spans: Months | None, cluster: str | None) -> list[AccountUse]:
    if spans is None:
        return []
    month, before = (uses(connection, days, "account", cluster) for days in spans)
    names = sorted(
        month.keys() | before.keys(), key=lambda of: (-month[of].processor_hours if of in month else 0.0, of)
    )
    return [AccountUse(*name, month.get(name), before.get(name)) for name in names[:_LISTED]]
