"""Sums of jobs by day and by a longer period, of a group and of each of its levels, in one table.

A longer period's row is the sum of its days' rows, so that a year is read from few rows of each group. Sums are of
whole units: exact, in whatever order jobs are added and taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import Connection, text

from jobsight_server.savings.groups import GroupName, levels_of
from jobsight_server.storage.engine import write_many

Sums = dict[tuple[str, int, GroupName], list[float]]
"""By metric, day and group."""

_EPOCH = date(1970, 1, 1)


def month_of(day: int) -> int:
    """The first day of its month."""
    return (as_date(day).replace(day=1) - _EPOCH).days


def week_of(day: int) -> int:
    """The Monday of its week.

    >>> as_date(week_of(19_675)).strftime("%A %Y-%m-%d")
    'Monday 2023-11-13'
    """
    return day - (day + 3) % 7


def as_date(day: int) -> date:
    """The day of the calendar."""
    return _EPOCH + timedelta(days=day)


@dataclass(frozen=True, slots=True)
class KeptSums:
    """One table: ``columns`` are added up, for days and for the longer ``period`` that ``period_of`` a day gives.

    ``is_used_by``: the columns of which one is not 0 in a row that counts anything.
    """

    table: str
    metrics: Sequence[str]
    columns: Sequence[str]
    levels: Sequence[str]
    period: str
    period_of: Callable[[int], int]
    is_used_by: Sequence[str]

    def add(
        self,
        connection: Connection,
        sums: Mapping[tuple[str, int, GroupName], list[float]],
        ids: Mapping[GroupName, int],
    ) -> None:
        """Adds the sums of groups to their rows; ``ids`` has those of all levels."""
        added: dict[tuple[str, str, str, int, int], list[float]] = {}
        for (metric, day, name), total in sums.items():
            of = levels_of(name)
            for level in self.levels:
                for period, first_day in (("day", day), (self.period, self.period_of(day))):
                    into = added.setdefault((metric, level, period, first_day, ids[of[level]]), [0] * len(total))
                    into[:] = [a + b for a, b in zip(into, total, strict=True)]
        insert = (
            f"INSERT INTO {self.table} (metric, level, period, first_day, group_id, {', '.join(self.columns)}) "
            f"VALUES (?, ?, ?, ?, ?{', ?' * len(self.columns)}) {self._on_conflict}"
        )
        write_many(connection, insert, [(*key, *total) for key, total in added.items()])

    def take_back(self, connection: Connection, day: int) -> None:
        """Removes the day's rows, and their sums from the longer period's."""
        minus = text(
            f"INSERT INTO {self.table} (metric, level, period, first_day, group_id, {', '.join(self.columns)}) "
            f"SELECT metric, level, '{self.period}', :longer, group_id, "
            f"{', '.join(f'-{name}' for name in self.columns)} FROM {self.table} "
            f"WHERE metric = :metric AND level = :level AND period = 'day' AND first_day = :day {self._on_conflict}"
        )
        for key in self._keys(day):
            connection.execute(minus, {**key, "longer": self.period_of(day)})
            connection.execute(
                text(f"DELETE FROM {self.table} WHERE {_OF_KEY} AND period = 'day' AND first_day = :day"), key
            )

    def forget_empty(self, connection: Connection, day: int) -> None:
        """Removes the rows of the day's longer period that count nothing any more."""
        empty = " AND ".join(f"{name} = 0" for name in self.is_used_by)
        query = f"DELETE FROM {self.table} WHERE {_OF_KEY} AND period = :period AND first_day = :day AND {empty}"
        for key in self._keys(self.period_of(day)):
            connection.execute(text(query), {**key, "period": self.period})

    @property
    def _on_conflict(self) -> str:
        sums = ", ".join(f"{name} = {self.table}.{name} + excluded.{name}" for name in self.columns)
        return f"ON CONFLICT (metric, level, period, first_day, group_id) DO UPDATE SET {sums}"

    def _keys(self, day: int) -> list[dict[str, object]]:
        # The leading columns of the key, so that each statement is a look-up.
        return [{"metric": metric, "level": level, "day": day} for metric in self.metrics for level in self.levels]


_OF_KEY = "metric = :metric AND level = :level"
