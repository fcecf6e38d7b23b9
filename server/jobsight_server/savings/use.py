"""What users, queues or accounts used of the machine in a month, beside the month before."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection

from jobsight_server.ground.answers import Record, Share
from jobsight_server.savings.sums.read import Days, stored_days, sums_of_all

MONTH_DAYS = 30
_HOUR_S = 3600.0


class Use(Record):
    """Jobs that ended in a span: how many, the processor-hours that they held, how many ran out of memory or time, the
    share of requested memory that they left unused, and how long they waited on average; null where unknown."""

    jobs: int
    processor_hours: float
    killed: int
    unused_share: Share | None
    waited_s: float | None


class Months(NamedTuple):
    """The newest thirty days with counted jobs, and as many before."""

    now: Days
    before: Days


def months(connection: Connection) -> Months | None:
    """Return the two spans; None without a counted job."""
    stored = stored_days(connection)
    if stored is None:
        return None
    first = stored.last - MONTH_DAYS + 1
    return Months(Days(first, stored.last), Days(first - MONTH_DAYS, first - 1))


def uses(
    connection: Connection, days: Days, level: str, cluster: str | None = None, ids: Collection[int] | None = None
) -> dict[tuple[str, str], Use]:
    """Return by cluster and name the use of each group of the level, or of these."""

    def sums(metric: str, *columns: str) -> dict[tuple[str, str], list[float]]:
        found = sums_of_all(connection, metric, days, level, cluster, columns, ids)
        return {(place, name): list(of) for place, name, *of in found}

    held, memory = sums("cpu", "jobs", "without_use", "weight", "request_failures"), sums("memory", "requested", "used")
    waited = sums("wait", "jobs", "used")
    found = {}
    for name, (jobs, without_use, weight, killed) in held.items():
        requested, used = memory.get(name, (0.0, 0.0))
        started, wait = waited.get(name, (0.0, 0.0))
        unused = max(0.0, 1.0 - used / requested) if requested else None
        of = wait / started if started else None
        found[name] = Use(int(jobs + without_use), weight / _HOUR_S, int(killed), unused, of)
    return found
