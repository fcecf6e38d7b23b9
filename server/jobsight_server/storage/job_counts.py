"""Counts of runs by user, application and state, kept with the runs, as no page counts these."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, and_, cast, delete, func, select

from jobsight_server.storage.engine import RUNS, of_runs, write_many
from jobsight_server.storage.schema import job_counts, jobs

NUMBER = cast(func.sum(job_counts.c.n), BigInteger)
"""The number of runs in some rows of ``job_counts``."""

_BY = ("cluster", "user", "group", "account", "state", "profiled")

_FIGURES = (func.count().label("n"), func.min(jobs.c.start).label("first"), func.max(jobs.c.end).label("last"))
_OF_ALL = select(*(jobs.c[name] for name in _BY), *_FIGURES).group_by(*(jobs.c[name] for name in _BY))
_OF_RUNS = _OF_ALL.where(jobs.c.id.in_(RUNS))
_LOCK = select(jobs.c.id).where(jobs.c.id.in_(RUNS)).order_by(jobs.c.id).with_for_update()
_ADD_RUNS = (
    'INSERT INTO job_counts (key, cluster, "user", "group", account, state, profiled, n, first_start, last_end) '
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET n = job_counts.n + excluded.n, "
    "first_start = CASE WHEN job_counts.first_start < excluded.first_start "
    "THEN job_counts.first_start ELSE excluded.first_start END, "
    "last_end = CASE WHEN job_counts.last_end IS NULL OR excluded.last_end > job_counts.last_end "
    "THEN excluded.last_end ELSE job_counts.last_end END"
)
_SET = "UPDATE job_counts SET first_start = ?, last_end = ? WHERE key = ?"
_FORGET_EMPTY = "DELETE FROM job_counts WHERE key = ? AND n = 0"


class _Figures(NamedTuple):
    n: int
    first_start: float
    last_end: float | None


_Key = tuple[Any, ...]
_Counts = dict[_Key, _Figures]


@contextmanager
def recounted(connection: Connection, runs: Sequence[int]) -> Iterator[list[int]]:
    """Count these runs again after the block, which changes or deletes some of them.

    Yields a list of further runs to count, for new ones. Use it once in a transaction, around all changes of rows of
    jobs: two PostgreSQL writers must lock jobs first and counts last, each in the same order, or they could wait for
    each other.
    """
    new: list[int] = []
    of_runs(connection, _LOCK, sorted(runs))  # their state until the block changes it
    before = _counts_of(connection, runs)
    yield new
    after = _counts_of(connection, [*runs, *new])
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    gone = [(key, figures._replace(n=-figures.n)) for key, figures in before.items() if key in changed]
    _add(connection, [*gone, *((key, figures) for key, figures in after.items() if key in changed)])
    deleted = sum(figures.n for figures in after.values()) < sum(figures.n for figures in before.values()) + len(new)
    for key in changed & before.keys():
        # A run that only changed its state still counts, with its times, under another key.
        if deleted or (key in after and _together(before[key], after[key])[1:] != after[key][1:]):
            _look_up_times(connection, key)
    write_many(connection, _FORGET_EMPTY, [(_digest(key),) for key, _ in gone])


def count_all(connection: Connection) -> None:
    """Count everything from scratch."""
    connection.execute(delete(job_counts))
    _add(connection, _figures(connection.execute(_OF_ALL)))


def _counts_of(connection: Connection, runs: Sequence[int]) -> _Counts:
    found: _Counts = {}
    for key, figures in _figures(of_runs(connection, _OF_RUNS, runs)):
        known = found.get(key)
        found[key] = figures if known is None else _together(known, figures)
    return found


def _figures(rows: Iterable[Any]) -> Iterator[tuple[_Key, _Figures]]:
    for *key, n, first, last in rows:
        yield tuple(key), _Figures(n, first, last)


def _together(one: _Figures, other: _Figures) -> _Figures:
    ends = [end for end in (one.last_end, other.last_end) if end is not None]
    return _Figures(one.n + other.n, min(one.first_start, other.first_start), max(ends, default=None))


def _add(connection: Connection, counts: Iterable[tuple[_Key, _Figures]]) -> None:
    rows = [(_digest(key), *key, *figures) for key, figures in counts]
    write_many(connection, _ADD_RUNS, sorted(rows, key=itemgetter(0)))


def _look_up_times(connection: Connection, key: _Key) -> None:
    same = [jobs.c[name].is_not_distinct_from(value) for name, value in zip(_BY, key, strict=True)]
    first, last = connection.execute(select(func.min(jobs.c.start), func.max(jobs.c.end)).where(and_(*same))).one()
    if first is not None:
        write_many(connection, _SET, [(first, last, _digest(key))])


def _digest(key: _Key) -> str:
    # Names may be longer than an index of PostgreSQL takes.
    return hashlib.sha256(json.dumps([*key[:-1], bool(key[-1])]).encode()).hexdigest()[:32]
