"""Accuracy of forecasts and share of recommendations held, by week; since when accuracy is lower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, func, select

from jobsight_predictor.evaluation.breaks import DROP, Break, find_break
from jobsight_predictor.metrics import METRICS
from jobsight_server.ground.answers import Metric, Record, Share
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import OF_DAYS, Parameter, choice_of, range_parameters
from jobsight_server.savings.sums.kept import PARTS, SCORES, Date, date_text, week_of
from jobsight_server.savings.sums.read import Days
from jobsight_server.storage.engine import fetch, fetch_by_keys
from jobsight_server.storage.schema import forecast_scores

RECENT_WEEKS = 2

_SUMS = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in SCORES)
_OF_WEEKS = "metric = ? AND level = ? AND period = 'week' AND first_day BETWEEN ? AND ?"
# A database may add whole numbers up to decimal ones.
_FELL_BY = (
    f"CAST(coalesce(CASE WHEN recent_jobs > 0 THEN (best - recent * 1.0 / recent_jobs) / {PARTS} END, 0) "
    "AS DOUBLE PRECISION)"
)
_TOTALS = (
    f"WITH by_group AS (SELECT group_id, {_SUMS}, max(CASE WHEN jobs >= 10 THEN accuracy / jobs END) AS best, "
    "sum(CASE WHEN first_day >= ? THEN jobs END) AS recent_jobs, "
    "sum(CASE WHEN first_day >= ? THEN accuracy END) AS recent FROM forecast_scores "
    f"WHERE {_OF_WEEKS}{{some}} GROUP BY group_id) "
    f"SELECT group_id, g.cluster, {{name}}, '{{metric}}', {', '.join(SCORES)}, {_FELL_BY} "
    "FROM by_group JOIN savings_groups g ON g.id = by_group.group_id WHERE jobs > 0"
)
# Of thousands of users few have a best week, and few of them fell: they are found where they are read.
_WITH_BEST = f" AND group_id IN (SELECT group_id FROM forecast_scores WHERE {_OF_WEEKS} AND jobs >= 10)"
# Without an index for the metric, or SQLite reads all groups of the days for each group.
_EACH = (
    "WITH asked(group_id, metric) AS (VALUES {{asked}}) "
    f"SELECT s.group_id, s.metric, s.first_day, {', '.join(f's.{name}' for name in SCORES)} "
    "FROM asked CROSS JOIN forecast_scores s WHERE s.level = '{level}' AND s.group_id = asked.group_id "
    "AND s.metric || '' = asked.metric AND s.period = '{period}' AND s.first_day BETWEEN {first} AND {last} "
    "ORDER BY s.group_id, s.metric, s.first_day"
)


class Scores(NamedTuple):
    """Sums over jobs; ``accuracy`` in ``PARTS``."""

    jobs: int
    accuracy: int
    within20: int
    bounds: int
    held: int


class GroupScores(NamedTuple):
    """All weeks of one group in one metric, and its ``Scores``; ``fell_by``: its best week less its last weeks, 0 if
    unknown."""

    group_id: int
    cluster: str
    name: str
    metric: str
    jobs: int
    accuracy: int
    within20: int
    bounds: int
    held: int
    fell_by: float


def scores_of_all(
    connection: Connection,
    metric: str,
    level: str,
    first_week: int,
    last_week: int,
    cluster: str | None = None,
    fell_by: float | None = None,
) -> list[GroupScores]:
    """Return each group of the level with a forecast in these weeks, named by their Mondays.

    With ``fell_by`` only those that fell by this much or more.
    """
    column = 'g."user"' if level == "user" else f"g.{level}"
    recent, weeks = last_week - 7 * (RECENT_WEEKS - 1), (metric, level, first_week, last_week)
    some, ends = ("", ()) if fell_by is None else (_WITH_BEST, weeks)
    query, asked = _TOTALS.format(name=column, metric=metric, some=some), [recent, recent, *weeks, *ends]
    for condition, value in ((" AND g.cluster = ?", cluster), (f" AND {_FELL_BY} >= ?", fell_by)):
        if value is not None:
            query += condition
            asked.append(value)
    return list(map(GroupScores._make, fetch(connection, query, tuple(asked))))


def scores_of_each(
    connection: Connection, level: str, period: str, groups: Sequence[tuple[int, str]], first: int, last: int
) -> dict[tuple[int, str], list[tuple[int, Scores]]]:
    """Return by group and metric (first day, scores) of each ``day`` or ``week`` that has any, rising."""
    query = _EACH.format(level=level, period=period, first=int(first), last=int(last))
    found: dict[tuple[int, str], list[tuple[int, Scores]]] = {group: [] for group in groups}
    for group_id, metric, day, *sums in fetch_by_keys(connection, query, list(groups)):
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
    newest = select(func.max(forecast_scores.c.first_day)).filter_by(level="cluster", period="week")
    found = [connection.scalar(newest.filter_by(metric=metric)) for metric in METRICS]
    return max((day + 6 for day in found if day is not None), default=None)


def broken(connection: Connection, by: str, *, every: bool = False) -> list[tuple[GroupScores, Break | None]]:
    """Return the groups whose forecasts broke in the last eight weeks, the largest fall first; or ``every`` group."""
    newest = newest_day(connection)
    if newest is None:
        return []
    first, last, least = week_of(newest - _BREAK_DAYS + 1), week_of(newest), None if every else _FELL_LEAST
    groups = [of for metric in METRICS for of in scores_of_all(connection, metric, by, first, last, fell_by=least)]
    breaks = _breaks(connection, by, first, last, groups)
    found = [(group, breaks.get((group.group_id, group.metric))) for group in groups]
    known = [each for each in found if every or each[1] is not None]
    return sorted(known, key=lambda each: each[1].since - each[1].before if each[1] else 0.0)


def accuracy_list(connection: Connection, asked: Asked, days: Days, promised: float, now: float) -> AccuracyList:
    """Return accuracy and share held by whole weeks; ``promised`` is the share of jobs to stay within what is
    recommended."""
    first, last, by, only = week_of(days.first), week_of(days.last), asked.of["by"] or BY[0], asked.of["metric"]
    site = {
        metric: _together(scores_of_all(connection, metric, "cluster", first, last, asked.cluster))
        for metric in METRICS
    }
    groups = [
        group
        for metric in ([only] if only else METRICS)
        for group in scores_of_all(connection, metric, by, first, last, asked.cluster)
        if asked.keeps(group.cluster, group.name)
    ]
    breaks = _breaks(connection, by, first, last, groups)
    valued, place = zip(_values(groups, breaks, asked), groups, strict=True), attrgetter("name", "cluster", "metric")
    position, ordered = asked.page_of(valued, itemgetter(0), lambda each: place(each[1]))
    shown = [group for _, group in ordered]
    weeks = scores_of_each(connection, by, "week", [(group.group_id, group.metric) for group in shown], first, last)
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
        rows=[
            _row(group, breaks.get((group.group_id, group.metric)), weeks[group.group_id, group.metric], promised)
            for group in shown
        ],
    )


def _breaks(
    connection: Connection, by: str, first: int, last: int, groups: Sequence[GroupScores]
) -> dict[tuple[int, str], Break]:
    """Return the groups whose last weeks are below their best one, and whose days confirm it."""
    fell = sorted((group for group in groups if group.fell_by >= _FELL_LEAST), key=lambda group: -group.fell_by)
    keys = [(group.group_id, group.metric) for group in fell[:_LOOKED_AT]]
    found = {}
    for key, days in scores_of_each(connection, by, "day", keys, first, last + 6).items():
        numbers = np.array([day for day, _ in days], dtype=np.int64)
        jobs = np.array([scores.jobs for _, scores in days], dtype=np.float64)
        sums = np.array([scores.accuracy / PARTS for _, scores in days], dtype=np.float64)
        if (broken := find_break(numbers, jobs, sums)) is not None:
            found[key] = broken
    return found


def _values(groups: Sequence[GroupScores], breaks: Mapping[tuple[int, str], Break], asked: Asked) -> list[Any]:
    """Return the groups' sort keys; for ``break`` the size of the fall, then the lowest accuracy of enough jobs."""
    if asked.sort in ("name", "metric", "jobs"):
        return [getattr(of, asked.sort) for of in groups]
    if asked.sort in ("held", "within20"):
        pairs = ((of.held, of.bounds) if asked.sort == "held" else (of.within20, of.jobs) for of in groups)
        return [part / whole if whole else None for part, whole in pairs]
    if asked.sort == "accuracy":
        return [of.accuracy / of.jobs / PARTS for of in groups]
    return [
        4.0 + fall.before - fall.since  # beyond all others
        if of.fell_by >= _FELL_LEAST and (fall := breaks.get((of.group_id, of.metric)))
        else (-1.0 if asked.descending else 1.0) * (of.accuracy / of.jobs / PARTS + 2.0 * (of.jobs < FEWEST_JOBS))
        for of in groups
    ]


def _row(group: GroupScores, fall: Break | None, weeks: Sequence[tuple[int, Scores]], promised: float) -> AccuracyRow:
    return AccuracyRow(
        **_figures(group, promised),
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


def _figures(scores: Scores | GroupScores, promised: float) -> dict[str, Any]:
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


def _together(all_of: Sequence[GroupScores]) -> Scores:
    return Scores(*(sum(getattr(of, name) for of in all_of) for name in SCORES))


def _accuracy(of: Scores | GroupScores) -> float | None:
    return _share(of.accuracy / PARTS, of.jobs)


def _share(part: float, of: int) -> float | None:
    return min(1.0, part / of) if of else None
