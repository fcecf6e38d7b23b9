"""The queue: jobs that wait and how long jobs waited, by queue and day; the use of the machine by day, month, account.

From stored sums: jobs are counted on the day on which they ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from sqlalchemy import BigInteger, Connection, cast, func, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.ground.answers import Record
from jobsight_server.savings.sums.kept import Date, date_text, month_of
from jobsight_server.savings.sums.read import Days, sums_by
from jobsight_server.savings.use import Months, Use, figures_by, months, uses
from jobsight_server.savings.waits import waited_at_most_s
from jobsight_server.storage.schema import jobs, nodes, savings_groups, waits

_MONTHS = 12
_LISTED = 15
_LONGEST_MONTH = 31


class PeriodUse(Use):
    """The use of the day, or of the month, from ``first_day`` on; and how long half of its jobs waited at most."""

    first_day: Date
    half_waited_s: float | None


class WaitedOn(Record):
    """How long jobs that ended on a day had waited on average."""

    day: Date
    waited_s: float


class QueueRow(Record):
    """A queue of all clusters asked for: jobs that wait now, the processors that they ask for and the longest wait; how
    long half and nine tenths of the month's jobs waited at most, and half of those of the month before; the average
    wait, in all and by day."""

    queue: str
    waiting: int
    processors: int
    longest_s: float | None
    half_waited_s: float | None
    nine_tenths_waited_s: float | None
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
    ``half_waited_s`` and ``nine_tenths_waited_s`` are at most a fifth above the exact values. ``processors``: those of
    the nodes with agents, null without.
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
    spans = months(connection)
    queues = _queues(connection, now, spans, cluster)
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


def _waiting(connection: Connection, cluster: str | None) -> dict[str, tuple[int, int, float | None]]:
    """Return of each queue how many jobs wait, their processors, and when the first was submitted."""
    name = func.coalesce(jobs.c.queue, "")
    processors = cast(func.sum(func.coalesce(jobs.c.processors, 1)), BigInteger)
    query = select(name, func.count(), processors, func.min(jobs.c.submitted)).where(jobs.c.state == QUEUED)
    if cluster is not None:
        query = query.where(func.coalesce(jobs.c.cluster, "") == cluster)  # by the state's index: few jobs wait
    return {queue: (number, held, oldest) for queue, number, held, oldest in connection.execute(query.group_by(name))}


def _queues(connection: Connection, now: float, spans: Months | None, cluster: str | None) -> list[QueueRow]:
    waiting = _waiting(connection, cluster)
    of_day: dict[str, dict[int, list[float]]] = defaultdict(dict)
    half, nine_tenths, half_before = dict[str, float](), dict[str, float](), dict[str, float]()
    if spans is not None:
        asked = ((spans.now, 5), (spans.now, 9), (spans.before, 5))
        of_queue = partial(waited_at_most_s, connection, savings_groups.c.queue, "day")
        half, nine_tenths, half_before = (of_queue(days, cluster, tenths) for days, tenths in asked)
        for name, day, *sums in sums_by(connection, "wait", ("queue", "day"), spans.now, cluster, ("jobs", "used")):
            of_day[name][day] = sums
    found = []
    for name in waiting.keys() | half.keys() | half_before.keys():
        number, processors, oldest = waiting.get(name, (0, 0, None))
        started, waited_s = (sum(of[column] for of in of_day[name].values()) for column in (0, 1))
        found.append(
            QueueRow(
                queue=name,
                waiting=number,
                processors=processors,
                longest_s=None if oldest is None else max(0.0, now - oldest),
                half_waited_s=half.get(name),
                nine_tenths_waited_s=nine_tenths.get(name),
                before_half_waited_s=half_before.get(name),
                waited_s=waited_s / started if started else None,
                days=[WaitedOn(date_text(day), of[1] / of[0]) for day, of in of_day[name].items() if of[0]],
            )
        )
    return sorted(found, key=lambda row: (-row.waiting, -(row.waited_s or 0.0), row.queue))


def _periods(connection: Connection, period: str, days: Days | None, cluster: str | None) -> list[PeriodUse]:
    if days is None:
        return []
    half = waited_at_most_s(connection, waits.c.first_day, period, days, cluster)

    def sums(metric: str, columns: Sequence[str]) -> Iterator[tuple[int, list[float]]]:
        for _, day, *of in sums_by(connection, metric, ("cluster", period), days, cluster, columns):
            yield day, of

    return [PeriodUse(*figures, date_text(day), half.get(day)) for day, figures in sorted(figures_by(sums).items())]


def _accounts(connection: Connection, spans: Months | None, cluster: str | None) -> list[AccountUse]:
    if spans is None:
        return []
    month, before = (uses(connection, days, "account", cluster) for days in spans)
    hours = {name: use.processor_hours for name, use in month.items()}
    names = sorted(month.keys() | before.keys(), key=lambda of: (-hours.get(of, 0.0), of))
    return [AccountUse(*name, month.get(name), before.get(name)) for name in names[:_LISTED]]
