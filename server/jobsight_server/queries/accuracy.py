"""Accuracy of forecasts and share of recommendations held, by week; since when accuracy is lower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import isnan, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_predictor.evaluation.breaks import DROP, Break, find_break
from jobsight_predictor.metrics import METRICS
from jobsight_server.ground.answers import Metric, Record, Share
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import OF_DAYS, Parameter, choice_of, range_parameters
from jobsight_server.savings.sums.kept import PARTS, SCORES, Date, date_text, week_of
from jobsight_server.savings.sums.read import Days
from jobsight_server.storage.engine import fetch, fetch_by_keys, keyed
from jobsight_server.storage.schema import savings_groups

RECENT_WEEKS = 2
_BEST_JOBS = 10  # fewer in a week make no best week
_BEST = f"max(CASE WHEN jobs >= {_BEST_JOBS} THEN accuracy / jobs ELSE 0 END)"
_RECENT = "sum(CASE WHEN first_day >= {{recent}} THEN {name} ELSE 0 END)"
_RECENT_JOBS, _RECENTLY = (_RECENT.format(name=name) for name in ("jobs", "accuracy"))
# Whole numbers, as a database may add them up to decimal ones.
_TOTALS = (
    f"SELECT {{number}}, group_id, {{sums}}, {_BEST}, CAST({_RECENT_JOBS} AS BIGINT), CAST({_RECENTLY} AS BIGINT) "
    "FROM forecast_scores WHERE metric = ? AND level = ? AND period = 'week' AND first_day BETWEEN ? AND ?"
)
_WITH_JOBS = " GROUP BY group_id HAVING sum(jobs) > 0"
# Of thousands of users few have a best week, and few of them fell.
_FELL = (
    f" AND (jobs >= {_BEST_JOBS} OR first_day >= {{recent}}) GROUP BY group_id "
    f"HAVING {_BEST} * {_RECENT_JOBS} > {_RECENTLY}"
)
# No join with the asked ones: of many, SQLite would first make a filter of all rows.
_EACH = (
    f"SELECT group_id, metric, first_day, {', '.join(SCORES)} FROM forecast_scores WHERE level = '{{level}}' "
    "AND group_id IN (VALUES {{asked}}) AND period = '{period}' AND first_day BETWEEN {first} AND {last} "
    "ORDER BY group_id, metric, first_day"
)
_NEWEST = "SELECT max(first_day) FROM forecast_scores WHERE metric = ? AND level = 'cluster' AND period = 'week'"


class Scores(NamedTuple):
    """Sums over jobs; ``accuracy`` in ``PARTS``."""

    jobs: int
    accuracy: int
    within20: int
    bounds: int
    held: int


class ScoredGroup(NamedTuple):
    """A group in one metric."""

    group_id: int
    cluster: str
    name: str
    metric: str


Totals = Mapping[str, NDArray[Any]]
"""Each group in each metric: its number and that of the metric, sums by name, and ``fell_by``: its best week less its
last weeks."""
_METRICS = tuple(METRICS)


def totals_of_all(
    connection: Connection,
    level: str,
    first_week: int,
    last_week: int,
    columns: Sequence[str] = SCORES,
    metrics: Iterable[str] = METRICS,
    *,
    only_fell: bool = False,
) -> Totals:
    """Return the groups of the level with a forecast in these weeks, named by their Mondays.

    ``only_fell``: only those that fell; ``columns`` of some of their weeks.
    """
    recent, sums = last_week - 7 * (RECENT_WEEKS - 1), (f"CAST(sum({name}) AS BIGINT)" for name in columns)
    query = (_TOTALS + (_FELL if only_fell else _WITH_JOBS)).replace("{sums}", ", ".join(sums))
    names, rows = ("metric", "group_id", *columns, "best", "recent_jobs", "recent"), []
    for metric in metrics:
        number = _METRICS.index(metric)
        rows += fetch(connection, query.format(number=number, recent=recent), (metric, level, first_week, last_week))
    numbers = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * len(names)).reshape(-1, len(names)).T
    found, (best, recent_jobs, recently) = dict(zip(names, numbers, strict=True)), numbers[-3:]
    fell_by = (best - recently / np.maximum(recent_jobs, 1)) / PARTS
    return {**found, "fell_by": np.where(recent_jobs > 0, fell_by, 0.0)}


def names_of(connection: Connection, level: str, totals: Totals, rows: Iterable[int]) -> dict[int, ScoredGroup]:
    """Return the groups of these rows of ``totals``."""
    groups = {row: int(totals["group_id"][row]) for row in rows}
    query, ids = keyed(savings_groups, ("id",), "cluster", level), [(group,) for group in {*groups.values()}]
    named = {group: (cluster, name) for group, cluster, name in fetch_by_keys(connection, query, ids)}
    return {row: ScoredGroup(group, *named[group], _METRICS[totals["metric"][row]]) for row, group in groups.items()}


def scores_of_each(
    connection: Connection, level: str, period: str, groups: Iterable[tuple[int, str]], first: int, last: int
) -> dict[tuple[int, str], list[tuple[int, Scores]]]:
    """Return by group and metric (first day, scores) of each ``day`` or ``week`` that has any, rising."""
    query = _EACH.format(level=level, period=period, first=int(first), last=int(last))
    found: dict[tuple[int, str], list[tuple[int, Scores]]] = {group: [] for group in groups}
    for group_id, metric, day, *sums in fetch_by_keys(connection, query, sorted({key[:1] for key in found})):
        if (group_id, metric) in found:
            found[group_id, metric].append((day, Scores(*sums)))
    return found


BY = ("user", "application", "cluster")
RANGE = "30d"
ACCURACY = Listing(
    ("break", "jobs", "accuracy", "within20", "held", "name", "metric"),
    lowest_first=("name", "metric", "accuracy", "within20", "held"),
    steady=("name", "metric"),
    rows=25,
    filters=(
        Parameter("by", f"a row for each of these in each metric (default {BY[0]})", choice_of(BY)),
        Parameter("metric", "only this metric", choice_of(tuple(METRICS))),
    ),
    span=range_parameters(RANGE, OF_DAYS),
)
FEWEST_JOBS = 5
"""Fewer jobs are not compared with what was promised."""

_LOOKED_AT = 100  # groups whose days are read, first those with last weeks furthest below their best one
_FELL_LEAST = DROP / 2
_BREAK_DAYS = 56
_SURE = 3.0  # standard errors by which a share must be below its target to be called short


class Score(Record):
    """Forecasts at submission, compared with use, over ``jobs`` with both; null without such jobs.

    ``accuracy``: mean accuracy; ``within20``: share of forecasts within 20 %; ``held``: share of the ``bounds``, the
    recommendations, that their jobs stayed within. ``is_short``: fewer held than promised, by more than chance.
    """

    jobs: int
    accuracy: Share | None
    within20: Share | None
    bounds: int
    held: Share | None
    is_short: bool


class WeekScore(Record):
    """The week from this Monday on. ``is_worse``: it has days since accuracy fell."""

    first_day: Date
    accuracy: Share | None
    held: Share | None
    jobs: int
    is_worse: bool


class AccuracyRow(Score):
    """One user, application or cluster in one metric. ``weeks`` has those with a forecast.

    ``first_bad_day``: since then accuracy is lower, and still is (docs/use/definitions.md, Broken forecasts), from
    ``accuracy_before`` to ``accuracy_since``; null where it did not break.
    """

    cluster: str
    name: str
    metric: Metric
    first_bad_day: Date | None
    accuracy_before: Share | None
    accuracy_since: Share | None
    weeks: list[WeekScore]


class MetricAccuracy(Score):
    """One metric over all clusters and users: of 100 bounds, ``promised`` times 100 are to be held."""

    metric: Metric
    promised: Share


class AccuracyList(ListPage):
    """Forecasts of jobs that ended in whole weeks (UTC, from Monday); days are null where no forecast is counted.

    ``broken``: rows whose forecasts broke, of ``total``; they are first if sorted by ``break``.
    """

    now: float
    by: str
    cluster: str | None
    metric: Metric | None
    first_day: Date | None
    last_day: Date | None
    promised: Share
    week_starts: list[Date]
    metrics: list[MetricAccuracy]
    broken: int
    rows: list[AccuracyRow]


def newest_day(connection: Connection) -> int | None:
    """Return the last day of the newest week with a forecast."""
    found = (day for metric in METRICS for (day,) in fetch(connection, _NEWEST, (metric,)))
    return max((day + 6 for day in found if day is not None), default=None)


def broken(connection: Connection, by: str, *, every: bool = False) -> list[tuple[ScoredGroup, Break | None]]:
    """Return the groups whose forecasts broke in the last eight weeks, the largest fall first; or ``every`` group."""
    newest = newest_day(connection)
    if newest is None:
        return []
    first, last = week_of(newest - _BREAK_DAYS + 1), week_of(newest)
    totals = totals_of_all(connection, by, first, last, ("jobs",), only_fell=not every)
    breaks = _breaks(connection, by, first, last, totals)
    rows = range(len(totals["jobs"])) if every else sorted(breaks)
    found = [(group, breaks.get(row)) for row, group in names_of(connection, by, totals, rows).items()]
    return sorted(found, key=lambda each: each[1].since - each[1].before if each[1] else 0.0)


def accuracy_list(connection: Connection, asked: Asked, days: Days, promised: float, now: float) -> AccuracyList:
    """Return accuracy and share held by whole weeks; ``promised`` is the share of jobs to stay within what is
    recommended."""
    first, last, by, only = week_of(days.first), week_of(days.last), asked.of["by"] or BY[0], asked.of["metric"]
    site = _site(connection, first, last, asked.cluster)
    columns = tuple(dict.fromkeys(("jobs", *_PAIRS.get(asked.sort, _PAIRS["accuracy"]))))
    totals = totals_of_all(connection, by, first, last, columns, [only] if only else METRICS)
    totals, names = _kept(connection, by, totals, asked)
    breaks = _breaks(connection, by, first, last, totals)
    values = _values(totals, breaks, asked)
    total = len(totals["jobs"])
    some = range(total) if values is None else asked.near(values)
    groups = {row: names[row] for row in some} if names else names_of(connection, by, totals, some)
    keys_of = {row: None if values is None or isnan(values[row]) else float(values[row]) for row in some}
    position, shown = asked.page_of(
        groups.items(),
        lambda each: getattr(each[1], asked.sort) if values is None else keys_of[each[0]],
        lambda each: (each[1].name, each[1].cluster, each[1].metric),
        total,
    )
    keys = {row: (group.group_id, group.metric) for row, group in shown}
    weeks = scores_of_each(connection, by, "week", keys.values(), first, last)
    any_counted = any(scores.jobs for scores in site.values())
    return AccuracyList(
        *position,
        now=now,
        by=by,
        cluster=asked.cluster,
        metric=only,
        first_day=date_text(first) if any_counted else None,
        last_day=date_text(last + 6) if any_counted else None,
        promised=promised,
        week_starts=[date_text(week) for week in range(first, last + 1, 7)],
        metrics=[
            MetricAccuracy(**_figures(scores, promised), metric=metric, promised=promised)
            for metric, scores in site.items()
            if scores.jobs or not METRICS[metric].of_gpus
        ],
        broken=len(breaks),
        rows=[_row(group, breaks.get(row), weeks[keys[row]], promised) for row, group in shown],
    )


def _site(connection: Connection, first: int, last: int, cluster: str | None) -> dict[str, Scores]:
    """Return the scores of each metric over the clusters, or of one."""
    totals = totals_of_all(connection, "cluster", first, last)
    names = names_of(connection, "cluster", totals, range(len(totals["jobs"])))
    found = {}
    for metric in METRICS:
        rows = [row for row, of in names.items() if of.metric == metric and cluster in (None, of.cluster)]
        found[metric] = Scores(*(int(totals[name][rows].sum()) for name in SCORES))
    return found


def _kept(connection: Connection, by: str, totals: Totals, asked: Asked) -> tuple[Totals, Sequence[ScoredGroup]]:
    """Return the groups that the request keeps, with their names if it asks for names."""
    if asked.cluster is None and not asked.search:
        return totals, ()
    names = names_of(connection, by, totals, range(len(totals["jobs"])))
    rows = [row for row, of in names.items() if asked.keeps(of.cluster, of.name)]
    return {name: column[rows] for name, column in totals.items()}, [names[row] for row in rows]


def _breaks(connection: Connection, by: str, first: int, last: int, totals: Totals) -> dict[int, Break]:
    """Return the rows whose last weeks are below their best one, and whose days confirm it."""
    fell = np.flatnonzero(totals["fell_by"] >= _FELL_LEAST)
    fell = fell[np.argsort(-totals["fell_by"][fell], kind="stable")][:_LOOKED_AT]
    keys = {int(row): (int(totals["group_id"][row]), _METRICS[totals["metric"][row]]) for row in fell}
    days_of = scores_of_each(connection, by, "day", keys.values(), first, last + 6)
    found = {}
    for row, key in keys.items():
        numbers, jobs, sums = np.array([(day, of.jobs, of.accuracy) for day, of in days_of[key]]).reshape(-1, 3).T
        if (broken := find_break(numbers, jobs.astype(np.float64), sums / PARTS)) is not None:
            found[row] = broken
    return found


_PAIRS = {"held": ("held", "bounds"), "within20": ("within20", "jobs"), "accuracy": ("accuracy", "jobs")}


def _values(totals: Totals, breaks: Mapping[int, Break], asked: Asked) -> NDArray[Any] | None:
    """Return the rows' sort keys, NaN without one; for ``break`` the size of the fall, then the lowest accuracy of
    enough jobs. None if the key is in the group's name."""
    if asked.sort in ("name", "metric"):
        return None
    if asked.sort == "jobs":
        return totals["jobs"].astype(np.float64)
    part, whole = (totals[name] for name in _PAIRS.get(asked.sort, _PAIRS["accuracy"]))
    shares: NDArray[Any] = np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
    if asked.sort in ("held", "within20"):
        return shares
    shares /= PARTS
    if asked.sort == "break":
        shares = (-1.0 if asked.descending else 1.0) * (shares + 2.0 * (totals["jobs"] < FEWEST_JOBS))
        for row, fall in breaks.items():
            shares[row] = 4.0 + fall.before - fall.since  # beyond all others
    return shares


def _row(group: ScoredGroup, fall: Break | None, weeks: Sequence[tuple[int, Scores]], promised: float) -> AccuracyRow:
    return AccuracyRow(
        **_figures(Scores(*map(sum, zip(*(of for _, of in weeks), strict=True))), promised),
        cluster=group.cluster,
        name=group.name,
        metric=group.metric,
        first_bad_day=fall and date_text(fall.day),
        accuracy_before=fall and fall.before,
        accuracy_since=fall and fall.since,
        weeks=[
            WeekScore(
                date_text(week),
                _accuracy(of),
                _share(of.held, of.bounds),
                of.jobs,
                fall is not None and fall.day < week + 7,
            )
            for week, of in weeks
            if of.jobs
        ],
    )


def _figures(scores: Scores, promised: float) -> dict[str, Any]:
    held = _share(scores.held, scores.bounds)
    chance = _SURE * sqrt(promised * (1 - promised) / scores.bounds) if scores.bounds else 0.0
    return {
        "jobs": scores.jobs,
        "accuracy": _accuracy(scores),
        "within20": _share(scores.within20, scores.jobs),
        "bounds": scores.bounds,
        "held": held,
        "is_short": held is not None and scores.bounds >= FEWEST_JOBS and held < promised - chance,
    }


def _accuracy(of: Scores) -> float | None:
    return _share(of.accuracy / PARTS, of.jobs)


def _share(part: float, of: int) -> float | None:
    return min(1.0, part / of) if of else None
