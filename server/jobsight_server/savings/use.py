"""What users, queues or accounts used of the machine in a month, beside the month before, and all in any period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from jobsight_server.ground.answers import Record, Share
from jobsight_server.savings.sums.read import Days, stored_days, sums_of_all

MONTH_DAYS = 30
_HOUR_S = 3600.0
_SUMS = {
    "cpu": ("jobs", "without_use", "weight", "request_failures"),
    "memory": ("requested", "used"),
    "wait": ("jobs", "used"),
}
"""Metric -> columns of its sums, in the order of ``_figures``."""

_Key = TypeVar("_Key", bound=Hashable)
_Figures = tuple[int, float, int, float | None, float | None]
"""The fields of ``Use``."""


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

    def sums(metric: str, columns: Sequence[str]) -> Iterator[tuple[tuple[str, str], list[float]]]:
        for place, name, *of in sums_of_all(connection, metric, days, level, cluster, columns, ids):
            yield (place, name), of

    return {key: Use(*figures) for key, figures in figures_by(sums).items()}


def figures_by(sums_of: Callable[[str, Sequence[str]], Iterable[tuple[_Key, Sequence[float]]]]) -> dict[_Key, _Figures]:
    """Return by key the figures of a ``Use``, from the sums of the columns of a metric that ``sums_of`` yields."""
    found: dict[_Key, list[float]] = defaultdict(lambda: [0.0] * sum(map(len, _SUMS.values())))
    place = 0
    for metric, columns in _SUMS.items():
        for key, sums in sums_of(metric, columns):
            for column, amount in enumerate(sums, place):
                found[key][column] += amount
        place += len(columns)
    return {key: _figures(*sums) for key, sums in found.items()}


def _figures(
    jobs: float,
    without_use: float,
    held_s: float,
    killed: float,
    asked: float,
    used: float,
    started: float,
    wait_s: float,
) -> _Figures:
    unused = max(0.0, 1.0 - used / asked) if asked else None
    return int(jobs + without_use), held_s / _HOUR_S, int(killed), unused, wait_s / started if started else None
