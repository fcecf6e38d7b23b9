"""Sums of jobs by day and by a longer period, for groups of user and application and for each of their levels.

A longer period's row is the sum of its days' rows: a year takes few rows of each group. Sums are of whole units: exact,
in any order of adding jobs and taking them back.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from math import ceil, isclose, log2
from typing import Annotated, Any, NamedTuple

from msgspec import Meta
from sqlalchemy import ColumnElement, Connection, Integer, Table, Text, and_, bindparam, delete, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.series import accuracy, within20
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.storage.engine import fetch_by_keys, insert_into, insertion, keyed, upsert, write_many
from jobsight_server.storage.schema import forecast_scores, savings, savings_groups, waits

OTHER = "(other applications)"
"""Stands for further applications of a user with very many, such as one for each time of day."""
GROUPS_OF_A_USER = 100

_LONGEST = 100  # PostgreSQL does not accept index entries above 2,704 bytes


class GroupName(NamedTuple):
    """A group's fields; empty if missing in the log, or left out by the level."""

    cluster: str
    user: str
    application: str
    queue: str
    account: str


_FIND = keyed(savings_groups, GroupName._fields, "id")
_OF_USERS = keyed(savings_groups, ("cluster", "user"), "id")
_ADD_GROUP = insertion(savings_groups, GroupName._fields)


def group_name(cluster: str, user: str, application: str | None, queue: str | None, account: str | None) -> GroupName:
    """Return the name of the group of these fields; very long ones are cut."""
    return GroupName(cluster, user, _short(application or ""), _short(queue or ""), _short(account or ""))


def levels_of(name: GroupName) -> dict[str, GroupName]:
    """Return the group's name at each level."""
    cluster, user, application, queue, account = name
    return {
        "group": name,
        "user": GroupName(cluster, user, "", "", ""),
        "application": GroupName(cluster, "", application, "", ""),
        "queue": GroupName(cluster, "", "", queue, ""),
        "account": GroupName(cluster, "", "", "", account),
        "cluster": GroupName(cluster, "", "", "", ""),
    }


LEVELS = tuple(levels_of(GroupName("", "", "", "", "")))
BY_WEEK = "user"
"""The level of most groups that a page reads: its amounts have sums of weeks too."""


def counted_as(connection: Connection, names: Sequence[GroupName]) -> dict[GroupName, GroupName]:
    """Return the group in which each counts: itself, or by queue ``OTHER`` after a user's ``GROUPS_OF_A_USER``."""
    known = known_ids(connection, names)
    users = list(dict.fromkeys(name[:2] for name in names if name not in known))
    count = Counter((cluster, user) for cluster, user, _ in fetch_by_keys(connection, _OF_USERS, users))
    found = {name: name for name in known}
    for name in names:
        if name not in found:
            found[name] = name if count[name[:2]] < GROUPS_OF_A_USER else name._replace(application=OTHER)
            count[name[:2]] += 1
    return found


def group_ids(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    """Return the id of each group, created if it is new."""
    wanted = list(dict.fromkeys(names))
    known = known_ids(connection, wanted)
    write_many(connection, _ADD_GROUP, [name for name in wanted if name not in known])
    return known_ids(connection, wanted)


def known_ids(connection: Connection, names: Iterable[GroupName]) -> dict[GroupName, int]:
    """Return the id of each group that counts jobs."""
    rows = fetch_by_keys(connection, _FIND, list(dict.fromkeys(names)))
    return {GroupName(*name): group_id for *name, group_id in rows}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:60]}#{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def forget_empty_groups(connection: Connection) -> None:
    """Remove the groups without any counted job."""
    counted = select(savings.c.group_id).where(savings.c.level.in_(LEVELS), savings.c.period == "month")
    scored = select(forecast_scores.c.group_id).where(
        forecast_scores.c.level.in_(LEVELS), forecast_scores.c.period == "week"
    )
    unused = and_(savings_groups.c.id.not_in(counted), savings_groups.c.id.not_in(scored))
    connection.execute(delete(savings_groups).where(unused))


Sums = dict[tuple[str, int, GroupName], list[float]]
"""Sums by metric, day and group."""

_EPOCH = date(1970, 1, 1)
Date = Annotated[str, Meta(extra_json_schema={"format": "date"})]


@lru_cache(maxsize=1000)
def month_of(day: int) -> int:
    """Return the first day of the day's month."""
    return (as_date(day).replace(day=1) - _EPOCH).days


def week_of(day: int) -> int:
    """Return the Monday of the day's week.

    >>> as_date(week_of(19_675)).strftime("%A %Y-%m-%d")
    'Monday 2023-11-13'
    """
    return day - (day + 3) % 7


def as_date(day: int) -> date:
    """Return the calendar date of the day."""
    return _EPOCH + timedelta(days=day)


def date_text(day: int) -> str:
    """Return the calendar date of the day, such as 2023-11-13."""
    return as_date(day).isoformat()


_KEY = ("metric", "level", "period", "first_day", "group_id")


@dataclass(frozen=True, slots=True)
class KeptSums:
    """One table: sums of ``columns``, for days and for the longer ``period``; ``period_of`` gives a day's.

    ``is_used_by``: columns; one of them is above or below 0 in any row that still counts jobs. ``by_week``: the level
    that has sums of weeks too.
    """

    table: Table
    metrics: Sequence[str]
    columns: Sequence[str]
    levels: Sequence[str]
    period: str
    period_of: Callable[[int], int]
    is_used_by: Sequence[str]
    by_week: str | None = None

    def add(
        self,
        connection: Connection,
        sums: Mapping[tuple[str, int, GroupName], list[float]],
        ids: Mapping[GroupName, int],
    ) -> None:
        """Add the sums of groups to their rows; ``ids`` has those of all levels."""
        added: dict[tuple[str, str, str, int, int], list[float]] = {}
        of_names = {name: levels_of(name) for _, _, name in sums}
        ids_of = {name: [(level, ids[of[level]]) for level in self.levels] for name, of in of_names.items()}
        for (metric, day, name), total in sums.items():
            for level, group_id in ids_of[name]:
                for period, first_day in (("day", day), *self._longer(level, day)):
                    key = (metric, level, period, first_day, group_id)
                    before = added.get(key)
                    added[key] = total if before is None else [a + b for a, b in zip(before, total, strict=True)]
        rows = [(*key, *total) for key, total in added.items()]
        write_many(connection, upsert(self.table, (*_KEY, *self.columns), added=self.columns), rows)

    def take_back(self, connection: Connection, day: int) -> None:
        """Remove the day's rows, and their sums from the longer periods'."""
        of = self.table.c
        longer = (bindparam("longer", type_=Text), bindparam("begin", type_=Integer))
        less = select(of.metric, of.level, *longer, of.group_id, *(-of[name] for name in self.columns))
        insert = insert_into(connection, self.table).from_select((*_KEY, *self.columns), less.where(*self._of_key()))
        sums = {name: of[name] + insert.excluded[name] for name in self.columns}
        minus = insert.on_conflict_do_update(index_elements=_KEY, set_=sums)
        for key in self._keys(day):
            for period, begin in self._longer(key["of_level"], day):
                connection.execute(minus, {**key, "longer": period, "begin": begin})
            connection.execute(delete(self.table).where(*self._of_key()), key)

    def forget_empty(self, connection: Connection, day: int) -> None:
        """Remove the rows of the day's longer periods that count no jobs."""
        empty = delete(self.table).where(*self._of_key(), *(self.table.c[name] == 0 for name in self.is_used_by))
        for key in self._keys(day):
            for period, begin in self._longer(key["of_level"], day):
                connection.execute(empty, {**key, "of_period": period, "of_day": begin})

    def _longer(self, level: object, day: int) -> list[tuple[str, int]]:
        weeks = [("week", week_of(day))] if level == self.by_week else []
        return [(self.period, self.period_of(day)), *weeks]

    def _of_key(self) -> list[ColumnElement[bool]]:
        # The leading columns of the key: each statement is a look-up.
        of = self.table.c
        names = {of.metric: "of_metric", of.level: "of_level", of.period: "of_period", of.first_day: "of_day"}
        return [column == bindparam(name) for column, name in names.items()]

    def _keys(self, day: int) -> list[dict[str, object]]:
        of_day = {"of_period": "day", "of_day": day}
        return [of_day | {"of_metric": metric, "of_level": level} for metric in self.metrics for level in self.levels]


PARTS = 1_000_000
"""Units of accuracy: millionths keep sums exact."""

SCORES = ("jobs", "accuracy", "within20", "bounds", "held")
"""Summed columns: ``jobs`` had a forecast and a value; ``bounds`` a recommendation; ``held`` of these stayed in it."""

SCORE_LEVELS = ("cluster", "user", "application")

SCORES_KEPT = KeptSums(forecast_scores, tuple(METRICS), SCORES, SCORE_LEVELS, "week", week_of, ("jobs", "bounds"))


def score_of(row: Any, recommended: float | None) -> tuple[int, ...] | None:
    """Return the columns of one job and metric; None if it counts in none.

    A value that is only shown, such as a lower bound, does not count. A request that was kept is no recommendation. A
    job that ran out of as much as was recommended, or of more, counts as not held.
    """
    asked, given = row.asked_walltime_s, row.value or 0.0
    if row.metric == "memory":
        asked = (row.asked_memory_bytes or 0.0) / (row.asked_processors or 1)
        given = max(given, (row.requested_memory_bytes or 0.0) / (row.asked_processors or 1))
    is_kept = row.metric in ASKED_FOR and isclose(recommended or 0.0, asked or 0.0)
    if row.failure is not None and FAILED_METRIC[row.failure] == row.metric:
        return None if recommended is None or is_kept or given < recommended else (0, 0, 0, 1, 0)
    if row.value is None or row.forecast is None or row.shown_only:
        return None
    near = round(accuracy(row.forecast, row.value) * PARTS)
    has_bound = recommended is not None and not is_kept
    is_held = has_bound and row.value <= (recommended or 0.0)
    return (1, near, int(within20(row.forecast, row.value)), int(has_bound), int(is_held))


_WAITS_PER_DOUBLE = 4
WAITS = 113
"""Classes of waits: the first are of a second at most, and each goes a fifth further than the one before, up to nine
years."""

WAITS_KEPT = KeptSums(waits, tuple(map(str, range(WAITS))), ("jobs",), ("queue",), "month", month_of, ("jobs",))


def wait_class(waited_s: float) -> int:
    """Return the class of a wait.

    >>> [wait_class(seconds) for seconds in (-1.0, 1.0, 2.0, 2.01, 3600.0)]
    [0, 0, 4, 5, 48]
    """
    return 0 if waited_s <= 1.0 else min(ceil(_WAITS_PER_DOUBLE * log2(waited_s)), WAITS - 1)


def longest_wait_s(number: int) -> float:
    """Return the longest wait of a class."""
    return float(2.0 ** (number / _WAITS_PER_DOUBLE))
