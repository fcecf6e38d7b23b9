"""What changed requests freed: node-hours by week, before and since changes began, failures, adoption."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, bindparam, func, select

from jobsight_server.adjust.ledger import DONE
from jobsight_server.ground.amounts import DAY_S, day_of
from jobsight_server.ground.answers import Record
from jobsight_server.savings.changes import Adjustment, TrialReport, changed_runs, last_adjustments, trial_report
from jobsight_server.savings.confidence import Freed, over_users_each
from jobsight_server.savings.sums.kept import Date, date_text, week_of
from jobsight_server.savings.sums.read import stored_days
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import adjustments, nodes, savings, savings_groups, trial_jobs

WEEKS = 8
FOLLOWED = 0.9, 1.1
"""A user whose requests hold from the first to the last times what was recommended follows it."""
LISTED = 15
_ASSUMED = 64.0, 256.0  # processors and GiB of a node, without agents
_CHANGED_BEFORE_DAYS = 30
"""How long before the first week a job of it may have been changed."""
_POSSIBLE = savings.c.request_held - savings.c.bound_held
_COUNTED = (*savings.c["jobs", "requested", "reserved"], _POSSIBLE, savings.c.request_failures)
# Without names: they are looked up once, not for each week.
_WEEK = select(savings.c.group_id, *_COUNTED).where(
    *(savings.c.metric == "memory", savings.c.level == "user", savings.c.period == "week"),
    *(savings.c.first_day == bindparam("monday"), savings.c.jobs > 0),
)
_USERS = select(*savings_groups.c["id", "cluster", "user"]).filter_by(application="", queue="", account="")
_OF_CHANGES = ("freed", "lowered", "lowered_ran_out", "shortened", "shortened_ran_out")
_COLUMNS = ("jobs", "held", "reserved", "possible", "ran_out", *_OF_CHANGES)
"""Summed by user and week: numbers of jobs, and node-hours."""
_AMOUNTS = ("held", "reserved", "possible", "freed")
"""Read in byte-seconds."""

Began = Literal["adjust", "trial"]
_Amounts = NDArray[np.float64]


class Figures(Record):
    """Jobs that ended in ``weeks`` weeks; amounts are node-hours.

    ``held``: what users requested for the ``jobs`` with an exact use and a recommendation. ``freed``: what changed jobs
    held less than their users requested. ``possible``: what recommended requests would have freed. ``money`` and
    ``possible_money``: the same at the price of a node-hour, null without one. Of the ``lowered`` jobs
    ``lowered_ran_out`` ran out of memory; of the ``shortened`` ones, with shorter limits, ``shortened_ran_out`` ran out
    of time. ``ran_out`` jobs needed more than their users' own requests and failed. ``users`` were recommended another
    amount than they requested, in these weeks or an earlier one; ``adopters`` of them requested 0.9 to 1.1 times what
    was recommended, over all of these jobs.
    """

    weeks: int
    jobs: int
    held: float
    freed: Freed
    possible: Freed
    money: Freed | None
    possible_money: Freed | None
    lowered: int
    lowered_ran_out: int
    shortened: int
    shortened_ran_out: int
    ran_out: int
    users: int
    adopters: int


class Week(Record):
    """The week from this Monday on; ``since``: changes had begun by its end."""

    first_day: Date
    since: bool
    figures: Figures


class Adoption(Record):
    """A user who was recommended another amount than requested, on all clusters asked for: node-hours freed and
    possible, and how many times what was recommended the requests held before and since changes began; null without
    counted jobs then."""

    user: str
    freed: float
    possible: float
    asked_before: float | None
    asked_since: float | None


class SavingsByWeek(Record):
    """The newest eight weeks with counted jobs. ``began``: when the first job was changed by `jobsight adjust`, or was
    assigned in a trial; null where neither happened. The week in which it began counts as ``since``.

    A node-hour is that of ``node_gib`` GiB for an hour: the mean of the nodes with agents, else ``assumed``.
    ``adoption``: the users with most to free or freed. ``trial``: the latest one. ``last``: the last 50
    changes, newest first.
    """

    cluster: str | None
    node_hour: float | None
    node_gib: float
    assumed: bool
    began: float | None
    began_by: Began | None
    before: Figures | None
    since: Figures | None
    weeks: list[Week]
    adoption: list[Adoption]
    trial: TrialReport | None
    last: list[Adjustment]


def savings_by_week(connection: Connection, cluster: str | None, node_hour: float | None) -> SavingsByWeek:
    """Return the figures of one cluster, or of all; ``node_hour``: the price of a node for an hour."""
    *_, gib, assumed = mean_node(connection)
    began, began_by, seed = _began(connection, cluster)
    stored = stored_days(connection)
    mondays: list[int] = []
    if stored is not None:
        last = week_of(stored.last)
        mondays = list(range(max(week_of(stored.first), last - 7 * (WEEKS - 1)), last + 1, 7))
    users, sums = _read(connection, cluster, mondays, gib)
    is_since = np.array([began is not None and (monday + 7) * DAY_S > began for monday in mondays], dtype=bool)
    numbers = np.arange(len(mondays))
    before, since = numbers[~is_since], numbers[is_since]
    *of_weeks, of_before, of_since = _figures(sums, [*numbers[:, None], before, since], node_hour)
    return SavingsByWeek(
        cluster=cluster,
        node_hour=node_hour,
        node_gib=gib,
        assumed=assumed,
        began=began,
        began_by=began_by,
        before=of_before if before.size else None,
        since=of_since if since.size else None,
        weeks=[
            Week(date_text(monday), bool(side), of)
            for monday, side, of in zip(mondays, is_since, of_weeks, strict=True)
        ],
        adoption=_adoption(users, sums, before, since),
        trial=None if seed is None else trial_report(connection, seed, cluster),
        last=last_adjustments(connection, cluster),
    )


def _began(connection: Connection, cluster: str | None) -> tuple[float | None, Began | None, str | None]:
    """Return when changes began, and by what, and the seed of the latest trial."""

    def of(table: Table) -> list[Any]:
        return [] if cluster is None else [table.c.cluster == cluster]

    trials = select(func.min(trial_jobs.c.assigned), func.max(trial_jobs.c.id)).where(*of(trial_jobs))
    assigned, latest = connection.execute(trials).one()
    changed = connection.scalar(
        select(func.min(adjustments.c.begun)).where(adjustments.c.state == DONE, *of(adjustments))
    )
    seed = connection.scalar(select(trial_jobs.c.seed).where(trial_jobs.c.id == latest))
    if assigned is not None and (changed is None or assigned <= changed):
        return assigned, "trial", seed
    return changed, None if changed is None else "adjust", seed


def _read(connection: Connection, cluster: str | None, mondays: list[int], gib: float) -> tuple[list[str], _Amounts]:
    """Return the users with counted or changed jobs, and their sums over clusters: by column, user and week."""
    if not mondays:
        return [], np.zeros((len(_COLUMNS), 0, 0))
    first, last = mondays[0], mondays[-1] + 6
    rows = [fetch(connection, _WEEK, {"monday": monday}) for monday in mondays]
    weeks = np.repeat(np.arange(len(mondays)), [len(of) for of in rows])
    of_weeks = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), np.float64).reshape(-1, 1 + len(_COUNTED))
    ids, *counted = of_weeks.T
    named = {group: user for group, place, user in fetch(connection, _USERS, {}) if cluster in (None, place)}
    groups, places = np.unique(ids, return_inverse=True)
    of_groups = [named.get(int(group)) for group in groups]  # None on another cluster
    runs = changed_runs(connection, (first - _CHANGED_BEFORE_DAYS) * DAY_S, cluster)
    runs = [run for run in runs if first <= day_of(run.end) <= last]
    known = [*(user for user in of_groups if user is not None), *(run.user for run in runs)]
    number = {user: n for n, user in enumerate(dict.fromkeys(known))}
    sums = np.zeros((len(_COLUMNS), len(number), len(mondays)))
    users = np.array([-1 if user is None else number[user] for user in of_groups], np.intp)[places]
    here = users >= 0
    for column, amounts in enumerate(counted):
        np.add.at(sums[column], (users[here], weeks[here]), amounts[here])  # a user may be on several clusters
    for run in runs:
        counts = (run.less > 0, run.ran_out)
        of_run = (run.less * run.run_time_s, *counts, 0, 0) if run.resource == "memory" else (0, 0, 0, *counts)
        sums[5:, number[run.user], (day_of(run.end) - first) // 7] += of_run
    units = np.array([gib * 2.0**30 * 3600.0 if name in _AMOUNTS else 1.0 for name in _COLUMNS])
    return list(number), sums / units[:, None, None]


def _figures(sums: _Amounts, spans: list[NDArray[np.int64]], node_hour: float | None) -> list[Figures]:
    """Return the figures of some weeks each, all from the same drawn users."""
    of_spans, advised = np.stack([sums[:, :, span].sum(axis=2) for span in spans]), _advised(sums)
    found = over_users_each(np.concatenate([of_spans[:, _COLUMNS.index(name)] for name in ("freed", "possible")]))
    figures = []
    for number, span in enumerate(spans):
        of = dict(zip(_COLUMNS, of_spans[number], strict=True))
        counts: Any = {name: int(of[name].sum()) for name in ("jobs", "ran_out", *_OF_CHANGES[1:])}
        pair = found[number], found[number + len(spans)]
        money = [None if node_hour is None else each.times(node_hour) for each in pair]
        could = (of["jobs"] > 0) & (advised[:, span[-1]] if span.size else False)
        figures.append(
            Figures(
                weeks=len(span),
                held=float(of["held"].sum()),
                freed=pair[0],
                possible=pair[1],
                money=money[0],
                possible_money=money[1],
                users=int(could.sum()),
                adopters=int((could & _followed(of)).sum()),
                **counts,
            )
        )
    return figures


def _followed(of: Mapping[str, _Amounts]) -> NDArray[np.bool_]:
    least, most = FOLLOWED
    return (least * of["reserved"] <= of["held"]) & (of["held"] <= most * of["reserved"])


def _advised(sums: _Amounts) -> NDArray[np.bool_]:
    """Return by user and week whether another amount was recommended by then: one who never was follows nothing."""
    of = dict(zip(_COLUMNS, sums, strict=True))
    return np.logical_or.accumulate((of["jobs"] > 0) & ~_followed(of), axis=1)


def _adoption(users: list[str], sums: _Amounts, before: NDArray[np.int64], since: NDArray[np.int64]) -> list[Adoption]:
    of = dict(zip(_COLUMNS, sums, strict=True))
    freed, possible = of["freed"].sum(axis=1).tolist(), of["possible"].sum(axis=1).tolist()

    def asked(user: int, span: NDArray[np.int64]) -> float | None:
        held, reserved = (of[name][user, span].sum() for name in ("held", "reserved"))
        return float(held / reserved) if reserved > 0 else None

    advised = np.flatnonzero(_advised(sums).any(axis=1)).tolist()
    most = nsmallest(LISTED, advised, key=lambda user: (-(freed[user] + possible[user]), users[user]))
    return [
        Adoption(users[user], freed[user], possible[user], asked(user, before), asked(user, since)) for user in most
    ]


def mean_node(connection: Connection) -> tuple[float, float, bool]:
    """Return processors and GiB of the mean node with an agent, and whether both are assumed for lack of one."""
    cpus, memory = connection.execute(select(func.avg(nodes.c.cpus), func.avg(nodes.c.memory_total_bytes))).one()
    return (*_ASSUMED, True) if not (cpus and memory) else (float(cpus), float(memory) / 2**30, False)
