"""Metrics for Prometheus: event counts, and the state of nodes, jobs and forecasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean as mean
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.calibration import Held
from jobsight_predictor.series import accuracy, within20
from jobsight_server.accounting.last_read import is_running
from jobsight_server.accounting.runs import ENDED
from jobsight_server.forecasts.events import last_learn_seq
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.queries.accuracy import broken
from jobsight_server.queries.node_states import seen_at, status
from jobsight_server.queries.rejected import rejections
from jobsight_server.queries.running import running_out
from jobsight_server.savings.use import months, uses
from jobsight_server.storage.engine import fetch, total_bytes
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, jobs, nodes, series
from jobsight_server.storage.server_states import disk_free_bytes

# The label names of counters, where that is not the reason alone: a stored label is these values joined with ": ", for
# outcomes with a space.
_LABELS: Mapping[str, tuple[str, ...]] = {
    "accounting_files": ("event",),
    "accounting_lines": ("kind",),
    "accounting_outcomes": ("kind", "outcome"),
    "connections_dropped": ("role", "reason"),
    "offer_outcomes": ("outcome",),
    "profiles": ("metric",),
    "logged_failures_without_amount": ("metric",),
    "matches_ended": ("state",),
    "profiles_late": ("metric",),
    "profiles_missing": ("metric", "reason"),
    "profiles_shown_only": ("metric", "attribution"),
    "quarantine_retried": ("outcome",),
    "reservations_ran_out": ("metric",),
}
# Counters whose names Prometheus would not accept or that would be misleading there.
_NAMES = {
    "accounting_rejected_because": "accounting_lines_rejected",
    "profiles": "profiles_learned",
    "quarantine_dropped": "quarantine_batches_dropped",
    "quarantine_retried": "quarantine_batches_retried",
    "quarantined_because": "batches_quarantined_by_reason",
}


def exposition(connection: Connection, now: float) -> bytes:
    """Return all metrics, in the text format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Database(connection, now))
    return generate_latest(registry)


@dataclass(frozen=True, slots=True)
class _Database(Collector):
    connection: Connection
    now: float

    def describe(self) -> list[Metric]:
        """Return nothing, as the collector is created for one scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        events = read_event_counts(self.connection)
        yield from _counters(events)
        rejected = sum(count.value for count in rejections(events))
        yield CounterMetricFamily(
            "jobsight_rejected", "Batches, lines and profiles rejected, all reasons", value=rejected
        )
        free_bytes = disk_free_bytes(self.connection)
        if free_bytes is not None:
            yield _gauge("disk_free_bytes", "Free on the disk of the database", (), {(): free_bytes})
        yield _gauge("database_bytes", "Size of the database on disk", (), {(): total_bytes(self.connection)})
        yield from _nodes(self.connection, self.now)
        yield from _jobs(self.connection, self.now)
        yield from _accuracy(self.connection)
        yield from _month(self.connection)
        yield from _running_out(self.connection, self.now)
        text = "1 while forecasts are less accurate than before, since a day of the last eight weeks"
        found = broken(self.connection, "cluster", every=True)
        is_broken = {(of.cluster, of.metric): since is not None for of, since in found}
        yield _gauge("forecasts_broken", text, ("cluster", "metric"), is_broken)


def _gauge(name: str, text: str, labels: Sequence[str], values: Mapping[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"jobsight_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _running_out(connection: Connection, now: float) -> Iterator[Metric]:
    labels = ("cluster", "resource")
    due: dict[tuple[str, ...], list[float]] = {}
    for each in running_out(connection, now):
        due.setdefault((each.cluster, each.resource), []).append(max(0.0, each.in_s or 0.0))
    clusters = connection.scalars(select(job_counts.c.cluster).distinct().order_by(job_counts.c.cluster))
    keys = [(cluster, resource) for cluster in clusters for resource in ("memory", "time")]
    number = {key: len(due.get(key, ())) for key in keys}
    yield _gauge("jobs_running_out", "Running jobs that are likely to run out within the hour", labels, number)
    text = "Time until the next of them is expected to run out"
    yield _gauge("jobs_running_out_lead_seconds", text, labels, {key: min(due[key]) for key in keys if key in due})


def _counters(counts: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily] = {}
    for (name, label), value in counts.items():
        labels = _LABELS.get(name, ("reason",) if label else ())
        if name not in families:
            metric = _NAMES.get(name, name)
            family = CounterMetricFamily(
                f"jobsight_{metric}", f"{metric} since the database was created", labels=labels
            )
            families[name] = family
        separator = " " if name == "accounting_outcomes" else ": "
        parts = label.split(separator, len(labels) - 1) if labels else []
        families[name].add_metric([*parts, *[""] * (len(labels) - len(parts))], value)
    yield from families.values()


def _nodes(connection: Connection, now: float) -> Iterator[Metric]:
    ages: dict[str, list[float]] = {}
    of_nodes = (nodes.c.cluster, nodes.c.received_at, nodes.c.last_time, nodes.c.clock_skew_s)
    for cluster, *times in connection.execute(select(*of_nodes).order_by(nodes.c.cluster)):
        ages.setdefault(cluster, []).append(max(0.0, now - seen_at(*times)))
    states = {
        (cluster, state): sum(status(age) == state for age in of_cluster)
        for cluster, of_cluster in ages.items()
        for state in ("up", "late", "silent")
    }
    yield _gauge("nodes", "Nodes by how long ago they last sent", ("cluster", "state"), states)
    oldest = {(cluster,): max(of_cluster) for cluster, of_cluster in ages.items()}
    yield _gauge("oldest_node_age_seconds", "Time since the longest silent node last sent", ("cluster",), oldest)


def _jobs(connection: Connection, now: float) -> Iterator[Metric]:
    """Yield runs under way, through the index of runs not profiled yet; profiled ones are in the counters."""
    of = job_counts.c
    waiting = select(of.cluster, NUMBER).where(of.profiled.is_(False), of.state == ENDED).group_by(of.cluster)
    running = select(jobs.c.cluster, func.count()).where(is_running(now)).group_by(jobs.c.cluster)
    found = {
        (cluster, state): count
        for state, query in (("running", running), ("waiting", waiting))
        for cluster, count in connection.execute(query)
    }
    text = "Runs under way: running, or ended and waiting for a profile"
    yield _gauge("jobs", text, ("cluster", "state"), found)
    learned = connection.execute(select(series.c.cluster, func.count()).group_by(series.c.cluster))
    numbers = {(cluster,): count for cluster, count in learned}
    yield _gauge("series", "Learned series, one for each user and metric", ("cluster",), numbers)


def _month(connection: Connection) -> Iterator[Metric]:
    """Yield the use of each cluster in the newest thirty days with counted jobs, of kept sums: some rows a cluster."""
    spans = months(connection)
    found = {} if spans is None else uses(connection, spans.now, "cluster")
    unused = {(cluster,): use.unused_share for (cluster, _), use in found.items() if use.unused_share is not None}
    for name, text, figures in (
        ("month_jobs", "Jobs that ended in the newest 30 days", {key[:1]: use.jobs for key, use in found.items()}),
        (
            "month_jobs_killed",
            "Those of them that ran out of memory or time",
            {key[:1]: use.killed for key, use in found.items()},
        ),
        ("month_memory_unused_ratio", "Share of requested memory x run time that they left unused", unused),
    ):
        yield _gauge(name, text, ("cluster",), figures)


LAST_JOBS = 500

# SQLite takes a range with one bound for a quarter of the table, and would read all jobs first.
_LAST = """
SELECT p.metric, p.value, p.forecast, p.bound, jobs."end" - jobs.start
FROM profiles AS placed CROSS JOIN profiles AS p CROSS JOIN jobs
WHERE placed.learn_seq > ? AND placed.learn_seq <= ? AND placed.learn_seq > 0
  AND p.run_id = placed.run_id AND (p.metric = placed.metric OR placed.metric = 'runtime' AND p.learn_seq = 0)
  AND jobs.id = p.run_id
  AND p.value IS NOT NULL AND NOT p.shown_only AND p.forecast IS NOT NULL
"""


def _accuracy(connection: Connection) -> Iterator[Metric]:
    """Yield the accuracy of forecasts at submission, of the last runs learned (docs/use/definitions.md)."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    held: dict[str, Held] = {}
    last = last_learn_seq(connection)
    for metric, value, forecast, bound, seconds in fetch(connection, _LAST, (last - LAST_JOBS, last)):
        pairs.setdefault(metric, []).append((forecast, value))
        held.setdefault(metric, Held()).score(bound, value, seconds)
    jobs = {metric: float(len(pairs.get(metric, ()))) for metric in METRICS}
    accuracies = {metric: mean(accuracy(*pair) for pair in found) for metric, found in pairs.items()}
    near = {metric: mean(within20(*pair) for pair in found) for metric, found in pairs.items()}
    covered = {metric: found.coverage for metric, found in held.items() if found.coverage is not None}
    for name, text, figures in (
        ("forecast_jobs", "Jobs that the accuracy is measured on, the last ones learned", jobs),
        ("forecast_accuracy_ratio", "Mean accuracy of forecasts at submission", accuracies),
        ("forecast_within_20_percent_ratio", "Forecasts within 20 % of the value", near),
        ("reservation_coverage_ratio", "Jobs that stayed within the recommended bound", covered),
    ):
        yield _gauge(name, text, ("metric",), {(metric,): figure for metric, figure in figures.items()})
