"""The queue: jobs that wait and how long jobs waited, by queue and day; the use of the machine by day, month, account.

From stored sums: jobs are counted on the day on which they ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import BigInteger, Connection, cast, func, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.ground.answers import Record
from jobsight_server.savings.sums.kept import Date, date_text, month_of
from jobsight_server.savings.sums.read import Days, sums_by
from jobsight_server.savings.use import Months, Use, months, uses
from jobsight_server.savings.waits import half_waited_s
from jobsight_server.storage.schema import jobs, nodes, savings_groups, waits

_MONTHS = 12
_LISTED = 15
_LONGEST_MONTH = 31
_HOUR_S = 3600.0


class PeriodUse(Record):
    """The day, or the month, from this day on: jobs that ended in it, the processor-hours that they held, how long half
    of them waited at most, and all on average."""

    first_day: Date
    jobs: int
    processor_hours: float
    half_waited_s: float | None
    waited_s: float | None


class WaitedOn(Record):
    """How long jobs that ended on a day had waited on average."""

    day: Date
    waited_s: float


class QueueRow(Record):
    """A queue of all clusters asked for: jobs that wait now, the processors that they ask for and the longest wait; how
    long half of the month's jobs waited at most, and of the month before; the average wait, in all and by day."""

    queue: str
    waiting: int
    processors: int
    longest_s: float | None
    half_waited_s: float | None
    before_half_waited_s: float | None
    waited_s: float | None
    days: list[WaitedOn]


class AccountUse(Record):
    """What an account used in the month and in the one before, null without a job."""

    cluster: str
    account: str
    month: Use | None
    before: Use | None


class Queue(Record):
    """The month is the newest thirty days with counted jobs: ``first_day`` to ``last_day``, null without one.
    ``half_waited_s`` is at most a fifth above the median. ``processors``: those of the nodes with agents, null without.
    ``accounts``: those with most processor-hours in it."""

    now: float
    cluster: str | None
    first_day: Date | None
    last_day: Date | None
    processors: int | None
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
    processors = select(func.sum(nodes.c.cpus))
    year = spans and Days(month_of(spans.now.last - _LONGEST_MONTH * (_MONTHS - 1)), spans.now.last)
    return Queue(
        now=now,
        cluster=cluster,
        first_day=first,
        last_day=last,
        processors=connection.scalar(processors if cluster is None else processors.where(nodes.c.cluster == cluster)),
        waiting=sum(row.waiting for row in queues),
        queues=queues,
        days=_periods(connection, "day", spans and spans.now, cluster),
        months=_periods(connection, "month", year, cluster),
        accounts=_accounts(connection, spans, cluster),
    )


_Waiting = tuple[int, int, float | None]
"""The waiting jobs of a queue: how many, their processors, and when the first was submitted."""


def _waiting(connection: Connection, cluster: str | None) -> dict[str, _Waiting]:
    """Return the waiting jobs of each queue."""
    name = func.coalesce(jobs.c.queue, "")
    processors = cast(func.sum(func.coalesce(jobs.c.processors, 1)), BigInteger)
    query = select(name, func.count(), processors, func.min(jobs.c.submitted)).where(jobs.c.state == QUEUED)
    if cluster is not None:
        query = query.where(func.coalesce(jobs.c.cluster, "") == cluster)  # by the state's index: few jobs wait
    return {queue: (number, held, oldest) for queue, number, held, oldest in connection.execute(query.group_by(name))}


def _queues(
    connection: Connection, now: float, spans: Months | None, waiting: Mapping[str, _Waiting], cluster: str | None
) -> list[QueueRow]:
    of_day: dict[str, dict[int, list[float]]] = defaultdict(dict)
    half: list[dict[str, float]] = [{}, {}]
    if spans is not None:
        half = [half_waited_s(connection, savings_groups.c.queue, "day", span, cluster) for span in spans]
        for name, day, *sums in sums_by(connection, "wait", ("queue", "day"), spans.now, cluster, ("jobs", "used")):
            of_day[name][day] = sums
    found = []
    for name in waiting.keys() | half[0].keys() | half[1].keys():
        number, processors, oldest = waiting.get(name, (0, 0, None))
        started, waited_s = (sum(of[column] for of in of_day[name].values()) for column in (0, 1))
        found.append(
            QueueRow(
                queue=name,
                waiting=number,
                processors=processors,
                longest_s=None if oldest is None else max(0.0, now - oldest),
                half_waited_s=half[0].get(name),
                before_half_waited_s=half[1].get(name),
                waited_s=waited_s / started if started else None,
                days=[WaitedOn(date_text(day), of[1] / of[0]) for day, of in of_day[name].items() if of[0]],
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
    half = half_waited_s(connection, waits.c.first_day, period, days, cluster)
    return [
        PeriodUse(date_text(day), int(number), hours, half.get(day), waited_s / started if started else None)
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
