"""Reads the sums of forecast accuracy: over whole weeks, and for some groups by week or by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_server.profiler.kept_sums import PARTS, SCORES
from jobsight_server.storage.engine import fetch, fetch_by_keys

RECENT_WEEKS = 2

_SUMS = ", ".join(f"sum({name}) AS {name}" for name in SCORES)
_TOTALS = (
    f"WITH by_group AS (SELECT group_id, {_SUMS}, max(CASE WHEN jobs >= 10 THEN accuracy / jobs END) AS best, "
    "sum(CASE WHEN first_day >= ? THEN jobs END) AS recent_jobs, "
    "sum(CASE WHEN first_day >= ? THEN accuracy END) AS recent FROM forecast_scores "
    "WHERE metric = ? AND level = ? AND period = 'week' AND first_day BETWEEN ? AND ? GROUP BY group_id) "
    f"SELECT group_id, g.cluster, {{name}}, {', '.join(SCORES)}, best, recent_jobs, recent "
    "FROM by_group JOIN savings_groups g ON g.id = by_group.group_id WHERE jobs > 0"
)
_EACH = (
    "WITH asked(group_id, metric) AS (VALUES {{asked}}) "
    f"SELECT s.group_id, s.metric, s.first_day, {', '.join(f's.{name}' for name in SCORES)} "
    "FROM asked CROSS JOIN forecast_scores s WHERE s.level = '{level}' AND s.group_id = asked.group_id "
    "AND s.metric = asked.metric AND s.period = '{period}' AND s.first_day BETWEEN {first} AND {last} "
    "ORDER BY s.group_id, s.metric, s.first_day"
)


class Scores(NamedTuple):
    """Sums over jobs; ``accuracy`` sums shares from 0 to 1."""

    jobs: int
    accuracy: float
    within20: int
    bounds: int
    held: int


class GroupScores(NamedTuple):
    """All weeks of one group in one metric; ``fell_by``: its best week less its last weeks, 0 if unknown."""

    group_id: int
    cluster: str
    name: str
    metric: str
    scores: Scores
    fell_by: float


def newest_week(connection: Connection) -> int | None:
    """Return the Monday of the last week with a counted forecast."""
    of_metric = "SELECT max(first_day) FROM forecast_scores WHERE metric = ? AND level = 'cluster' AND period = 'week'"
    found = [row[0] for metric in METRICS for row in fetch(connection, of_metric, (metric,)) if row[0] is not None]
    return max(found, default=None)


def scores_of_all(
    connection: Connection, metric: str, level: str, first_week: int, last_week: int, cluster: str | None = None
) -> list[GroupScores]:
    """Return each group of the level with a forecast in these weeks, named by their Mondays."""
    column = 'g."user"' if level == "user" else f"g.{level}"
    query = _TOTALS.format(name=column) + ("" if cluster is None else " AND g.cluster = ?")
    recent = last_week - 7 * (RECENT_WEEKS - 1)
    asked = (recent, recent, metric, level, first_week, last_week, *([] if cluster is None else [cluster]))
    found = []
    # A database may add whole numbers up to decimal ones.
    for group_id, in_cluster, name, *sums, best, recent_jobs, recent_sum in fetch(connection, query, asked):
        fell_by = (best - int(recent_sum) / int(recent_jobs)) / PARTS if best is not None and recent_jobs else 0.0
        found.append(GroupScores(group_id, in_cluster, name, metric, _scores(sums), fell_by))
    return found


def scores_of_each(
    connection: Connection, level: str, period: str, groups: Sequence[tuple[int, str]], first: int, last: int
) -> dict[tuple[int, str], list[tuple[int, Scores]]]:
    """Return by group and metric (first day, scores) of each ``day`` or ``week`` that has any, rising."""
    query = _EACH.format(level=level, period=period, first=int(first), last=int(last))
    found: dict[tuple[int, str], list[tuple[int, Scores]]] = {group: [] for group in groups}
    for group_id, metric, day, *sums in fetch_by_keys(connection, query, list(groups)):
        found[group_id, metric].append((day, _scores(sums)))
    return found


def _scores(sums: Sequence[int]) -> Scores:
    jobs, accuracy, within20, bounds, held = map(int, sums)
    return Scores(jobs, accuracy / PARTS, within20, bounds, held)
