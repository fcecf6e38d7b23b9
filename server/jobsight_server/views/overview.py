"""The whole site at a glance: nodes, freshness, ingest rate, jobs, how good answers were, what was refused."""

from __future__ import annotations

from statistics import median
from typing import Any

from sqlalchemy import Connection, func, select, text

from jobsight_server.accounting.lifecycle import STATES
from jobsight_server.storage.schema import jobs, nodes
from jobsight_server.storage.tallies import read_tallies
from jobsight_server.views.answered import answered
from jobsight_server.views.freshness import status
from jobsight_server.views.refused import refusals

RATE_BARS = 60
RATE_BAR_S = 15.0


def overview(connection: Connection, now: float) -> dict[str, Any]:
    """Figures of every cluster and of the site.

    ``ingest.rate`` covers the last 15 minutes in bars of 15 s, oldest first.
    """
    tallies = read_tallies(connection)
    node_rows = connection.execute(select(nodes.c.cluster, nodes.c.received_at)).all()
    job_rows = connection.execute(
        select(jobs.c.cluster, jobs.c.state, jobs.c.profiled, func.count()).group_by(
            jobs.c.cluster, jobs.c.state, jobs.c.profiled
        )
    ).all()
    users = connection.execute(
        select(jobs.c.cluster, func.count(func.distinct(jobs.c.user))).group_by(jobs.c.cluster)
    ).all()
    users_of = {row[0]: int(row[1]) for row in users}
    clusters = [
        {
            "cluster": cluster,
            "nodes": _node_figures([row.received_at for row in node_rows if row.cluster == cluster], now),
            "jobs": _job_figures([(state, done, n) for c, state, done, n in job_rows if c == cluster]),
            "users": users_of.get(cluster, 0),
        }
        for cluster in sorted({row.cluster for row in node_rows} | {row.cluster for row in job_rows})
    ]
    refused = refusals(tallies)
    return {
        "now": now,
        "clusters": clusters,
        "nodes": _node_figures([row.received_at for row in node_rows], now),
        "jobs": _job_figures([(state, done, n) for _, state, done, n in job_rows]),
        "users": sum(users_of.values()),
        "ingest": {
            "samples": tallies.get(("samples_stored", ""), 0),
            "batches": {name.removeprefix("batches_"): n for name, n in _sums(tallies, "batches_").items()},
            "rate": ingest_rate(connection, now),
        },
        "answered": answered(connection),
        "refused": refused,
        "refused_total": sum(entry["value"] for entry in refused),
    }


def ingest_rate(connection: Connection, now: float) -> dict[str, Any]:
    """Samples per second stored in each of the last bars: ``time`` of the bar's begin and ``samples_per_s``."""
    begin = now - RATE_BARS * RATE_BAR_S
    # CAST rounds on PostgreSQL and truncates on SQLite, whose floor() is a build option.
    offset = "(received_at - :begin) / :bar"
    bar = f"CAST({offset} AS INTEGER)" if connection.dialect.name == "sqlite" else f"floor({offset})"
    rows = connection.execute(
        text(
            f"SELECT {bar} AS bar, sum(samples) FROM batches WHERE received_at >= :begin AND received_at < :now "
            "GROUP BY 1"
        ),
        {"begin": begin, "bar": RATE_BAR_S, "now": now},
    )
    samples = {int(bar_number): int(count) for bar_number, count in rows}
    return {
        "bar_s": RATE_BAR_S,
        "time": [begin + i * RATE_BAR_S for i in range(RATE_BARS)],
        "samples_per_s": [samples.get(i, 0) / RATE_BAR_S for i in range(RATE_BARS)],
    }


def _node_figures(received: list[float], now: float) -> dict[str, Any]:
    ages = [max(0.0, now - at) for at in received]
    statuses = [status(age) for age in ages]
    return {
        "total": len(ages),
        "up": statuses.count("up"),
        "late": statuses.count("late"),
        "silent": statuses.count("silent"),
        "newest_age_s": min(ages, default=None),
        "median_age_s": median(ages) if ages else None,
        "oldest_age_s": max(ages, default=None),
    }


def _job_figures(rows: list[tuple[str, bool, int]]) -> dict[str, int]:
    figures = dict.fromkeys(STATES, 0)
    for state, _, count in rows:
        figures[state] = figures.get(state, 0) + count
    figures["profiled"] = sum(count for state, done, count in rows if state == "ended" and done)
    figures["waiting"] = sum(count for state, done, count in rows if state == "ended" and not done)
    return figures


def _sums(tallies: dict[tuple[str, str], int], prefix: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (name, _), value in tallies.items():
        if name.startswith(prefix):
            sums[name] = sums.get(name, 0) + value
    return sums
