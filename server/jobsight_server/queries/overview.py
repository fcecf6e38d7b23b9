"""Forecast accuracy over the last jobs, and the whole site at a glance."""

from __future__ import annotations

from collections import Counter
from statistics import median

from sqlalchemy import Connection, func, select, text

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.calibration import Held
from jobsight_predictor.series import accuracy, within20
from jobsight_server.forecasts.events import last_learn_seq
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.queries.node_states import seen_at, status
from jobsight_server.queries.rejected import EventCount, rejections
from jobsight_server.storage.engine import fetch, whole
from jobsight_server.storage.event_counts import NUMBER, read_event_counts
from jobsight_server.storage.schema import job_counts, nodes
from jobsight_server.storage.size_cap import DELETED

LAST_JOBS = 500

# SQLite takes a range with one bound for a quarter of the table, and would read all jobs first.
_LAST = """
SELECT p.metric, p.value, p.forecast, p.bound, jobs."end" - jobs.start FROM profiles AS p CROSS JOIN jobs
WHERE jobs.id = p.run_id AND p.learn_seq > ? AND p.learn_seq <= ?
  AND p.value IS NOT NULL AND NOT p.shown_only AND p.forecast IS NOT NULL
"""


class MetricAccuracy(Record):
    """Forecasts of one metric at submission, compared with actual use; null if there was no such job.

    ``jobs`` had a forecast and a value; ``accuracy`` their mean accuracy, ``within20`` the share of forecasts within
    20 %, ``coverage`` the share of jobs within their bound, ``cost_coverage`` the same weighted by value x seconds.
    """

    metric: Metric
    jobs: int
    accuracy: Share | None
    within20: Share | None
    coverage: Share | None
    cost_coverage: Share | None


def recent_accuracy(connection: Connection) -> list[MetricAccuracy]:
    """Return accuracy by metric, over the last 500 runs that forecasts learned from."""
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in METRICS}
    held = {metric: Held() for metric in METRICS}
    last = last_learn_seq(connection)
    for metric, value, forecast, bound, seconds in fetch(connection, _LAST, (last - LAST_JOBS, last)):
        found[metric].append((value, forecast))
        held[metric].score(bound, value, seconds)
    return [
        MetricAccuracy(
            metric=metric,
            jobs=len(rows),
            accuracy=_mean([accuracy(forecast, value) for value, forecast in rows]),
            within20=_mean([within20(forecast, value) for value, forecast in rows]),
            coverage=held[metric].coverage,
            cost_coverage=held[metric].cost_coverage,
        )
        for metric, rows in found.items()
        if rows or not METRICS[metric].of_gpus
    ]


def _mean(figures: list[float] | list[bool]) -> float | None:
    return sum(figures) / len(figures) if figures else None


RATE_BARS = 60
RATE_BAR_S = 15.0


class NodeFigures(Record):
    """Numbers of nodes up, late and silent, and the longest silence."""

    total: int
    up: int
    late: int
    silent: int
    newest_age_s: float | None
    median_age_s: float | None
    oldest_age_s: float | None


class RunFigures(Record):
    """Numbers of runs by state; of the ended ones, the number ``profiled`` and ``waiting`` for a profile.

    ``queued`` ones have not started; only some schedulers' logs show them.
    """

    queued: int
    running: int
    ended: int
    requeued: int
    deleted: int
    profiled: int
    waiting: int


class ClusterFigures(Record):
    """One cluster at a glance."""

    cluster: str
    nodes: NodeFigures
    jobs: RunFigures
    users: int


class IngestRate(Record):
    """Samples stored per second over the last 15 minutes in bars of ``bar_s``, oldest first, by their start."""

    bar_s: float
    time: list[float]
    samples_per_s: list[float]


class Ingest(Record):
    """Ingest: samples stored, the number deleted early to save space, and batches by outcome."""

    samples: int
    samples_deleted_for_space: int
    batches: dict[str, int]
    rate: IngestRate


class Overview(Record):
    """Every cluster and the site as a whole."""

    now: float
    clusters: list[ClusterFigures]
    nodes: NodeFigures
    jobs: RunFigures
    users: int
    ingest: Ingest
    accuracy: list[MetricAccuracy]
    rejected: list[EventCount]
    rejected_total: int


def overview(connection: Connection, now: float) -> Overview:
    """Return the figures of every cluster and of the site."""
    events = read_event_counts(connection)
    of_nodes = (nodes.c.cluster, nodes.c.received_at, nodes.c.last_time, nodes.c.clock_skew_s)
    seen = [(row[0], seen_at(*row[1:])) for row in connection.execute(select(*of_nodes))]
    job_rows = connection.execute(
        select(job_counts.c.cluster, job_counts.c.state, job_counts.c.profiled, NUMBER).group_by(
            job_counts.c.cluster, job_counts.c.state, job_counts.c.profiled
        )
    ).all()
    users = connection.execute(
        select(job_counts.c.cluster, func.count(func.distinct(job_counts.c.user))).group_by(job_counts.c.cluster)
    ).all()
    users_of = {row[0]: int(row[1]) for row in users}
    clusters = [
        ClusterFigures(
            cluster=cluster,
            nodes=node_figures([at for of_cluster, at in seen if of_cluster == cluster], now),
            jobs=_run_figures([(state, done, n) for c, state, done, n in job_rows if c == cluster]),
            users=users_of.get(cluster, 0),
        )
        for cluster in sorted({of_cluster for of_cluster, _ in seen} | {row.cluster for row in job_rows})
    ]
    rejected = rejections(events)
    return Overview(
        now=now,
        clusters=clusters,
        nodes=node_figures([at for _, at in seen], now),
        jobs=_run_figures([(state, done, n) for _, state, done, n in job_rows]),
        users=sum(users_of.values()),
        ingest=Ingest(
            samples=events.get(("samples_stored", ""), 0),
            samples_deleted_for_space=events.get((DELETED, ""), 0),
            batches={name.removeprefix("batches_"): n for name, n in _sums(events, "batches_").items()},
            rate=ingest_rate(connection, now),
        ),
        accuracy=recent_accuracy(connection),
        rejected=rejected,
        rejected_total=sum(count.value for count in rejected),
    )


def ingest_rate(connection: Connection, now: float) -> IngestRate:
    """Return the samples stored over the last 15 minutes."""
    begin = now - RATE_BARS * RATE_BAR_S
    offset = "(received_at - :begin) / :bar"
    bar = whole(connection, offset)
    rows = connection.execute(
        text(
            f"SELECT {bar} AS bar, sum(samples) FROM readings WHERE received_at >= :begin AND received_at < :now "
            "GROUP BY 1"
        ),
        {"begin": begin, "bar": RATE_BAR_S, "now": now},
    )
    samples = {int(bar_number): int(count) for bar_number, count in rows}
    return IngestRate(
        bar_s=RATE_BAR_S,
        time=[begin + i * RATE_BAR_S for i in range(RATE_BARS)],
        samples_per_s=[samples.get(i, 0) / RATE_BAR_S for i in range(RATE_BARS)],
    )


def node_figures(seen: list[float], now: float) -> NodeFigures:
    """Return the freshness of nodes last seen at these times."""
    ages = [max(0.0, now - at) for at in seen]
    statuses = [status(age) for age in ages]
    return NodeFigures(
        total=len(ages),
        up=statuses.count("up"),
        late=statuses.count("late"),
        silent=statuses.count("silent"),
        newest_age_s=min(ages, default=None),
        median_age_s=median(ages) if ages else None,
        oldest_age_s=max(ages, default=None),
    )


def _run_figures(rows: list[tuple[str, bool, int]]) -> RunFigures:
    counts: Counter[str] = Counter()
    for state, done, count in rows:
        counts[state] += count
        if state == "ended":
            counts["profiled" if done else "waiting"] += count
    return RunFigures(**{name: counts[name] for name in RunFigures.__struct_fields__})


def _sums(events: dict[tuple[str, str], int], prefix: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (name, _), value in events.items():
        if name.startswith(prefix):
            sums[name] = sums.get(name, 0) + value
    return sums
