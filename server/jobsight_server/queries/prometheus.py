"""Metrics for Prometheus: event counts, and the state of nodes, jobs and forecasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection, func, select

from jobsight_server.queries.accuracy import recent_accuracy
from jobsight_server.queries.freshness import seen_at, status
from jobsight_server.queries.rejected import rejections
from jobsight_server.queries.running_out import running_out
from jobsight_server.queries.trust import of_clusters
from jobsight_server.storage.engine import total_bytes
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, nodes, series
from jobsight_server.storage.server_states import disk_free_bytes

# The label names of counters: a stored label is these values joined with ": ", for outcomes with a space.
_LABELS: Mapping[str, tuple[str, ...]] = {
    "accounting_files": ("event",),
    "accounting_lines": ("kind",),
    "accounting_outcomes": ("kind", "outcome"),
    "accounting_rejected_because": ("reason",),
    "accounting_unreadable": ("reason",),
    "batches_rejected": ("reason",),
    "connections_dropped": ("role", "reason"),
    "offer_outcomes": ("outcome",),
    "offers_rejected": ("reason",),
    "profiles": ("metric",),
    "mails_failed": ("reason",),
    "logged_failures_without_amount": ("metric",),
    "measurements_refused": ("reason",),
    "matches_deleted": ("reason",),
    "matches_ended": ("state",),
    "profiles_late": ("metric",),
    "profiles_missing": ("metric", "reason"),
    "profiles_refused": ("reason",),
    "profiles_shown_only": ("metric", "attribution"),
    "quarantine_retried": ("outcome",),
    "quarantined_because": ("reason",),
    "requests_unavailable": ("reason",),
    "requirement_feedback_rejected": ("reason",),
    "requirement_outcomes": ("outcome",),
    "reservations_ran_out": ("metric",),
    "resource_reports_rejected": ("reason",),
}
# Counters whose names Prometheus would not accept or that would be misleading there.
_NAMES = {
    "accounting_rejected_because": "accounting_lines_rejected",
    "cpu_above_1.05": "profiles_cpu_above_processors",
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
            yield GaugeMetricFamily("jobsight_disk_free_bytes", "Free on the disk of the database", value=free_bytes)
        yield GaugeMetricFamily(
            "jobsight_database_bytes", "Size of the database on disk", value=total_bytes(self.connection)
        )
        yield from _nodes(self.connection, self.now)
        yield from _jobs(self.connection)
        yield from _accuracy(self.connection)
        yield from _running_out(self.connection, self.now)
        yield from _broken(self.connection, self.now)


def _running_out(connection: Connection, now: float) -> Iterator[GaugeMetricFamily]:
    labels = ("cluster", "resource")
    number = GaugeMetricFamily(
        "jobsight_jobs_running_out", "Running jobs that are likely to run out within the hour", labels=labels
    )
    lead = GaugeMetricFamily(
        "jobsight_jobs_running_out_lead_seconds", "Time until the next of them is expected to run out", labels=labels
    )
    found: dict[tuple[str, str], list[float]] = {}
    for each in running_out(connection, now):
        found.setdefault((each.cluster, each.resource), []).append(max(0.0, each.in_s or 0.0))
    clusters = connection.scalars(select(job_counts.c.cluster).distinct().order_by(job_counts.c.cluster))
    for key in [(cluster, resource) for cluster in clusters for resource in ("memory", "time")]:
        number.add_metric(key, len(found.get(key, ())))
        if key in found:
            lead.add_metric(key, min(found[key]))
    yield from (number, lead)


def _broken(connection: Connection, now: float) -> Iterator[GaugeMetricFamily]:
    family = GaugeMetricFamily(
        "jobsight_forecasts_broken",
        "1 while forecasts are less accurate than before, since a day of the last eight weeks",
        labels=("cluster", "metric"),
    )
    for row in of_clusters(connection, now):
        family.add_metric((row.cluster, row.metric), row.first_bad_day is not None)
    yield family


def _counters(counts: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily] = {}
    for (name, label), value in counts.items():
        labels = _LABELS.get(name, ("label",) if label else ())
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
    by_status = GaugeMetricFamily("jobsight_nodes", "Nodes by how long ago they last sent", labels=("cluster", "state"))
    oldest = GaugeMetricFamily(
        "jobsight_oldest_node_age_seconds", "Time since the longest silent node last sent", labels=("cluster",)
    )
    ages: dict[str, list[float]] = {}
    of_nodes = (nodes.c.cluster, nodes.c.received_at, nodes.c.last_time, nodes.c.clock_skew_s)
    for cluster, *times in connection.execute(select(*of_nodes)):
        ages.setdefault(cluster, []).append(max(0.0, now - seen_at(*times)))
    for cluster, of_cluster in sorted(ages.items()):
        found = Counter(map(status, of_cluster))
        for state in ("up", "late", "silent"):
            by_status.add_metric((cluster, state), found[state])
        oldest.add_metric((cluster,), max(of_cluster))
    yield from (by_status, oldest)


def _jobs(connection: Connection) -> Iterator[Metric]:
    """Yield runs under way, through the index of runs not profiled yet; profiled ones are in the counters."""
    under_way = GaugeMetricFamily(
        "jobsight_jobs", "Runs under way: running, or ended and waiting for a profile", labels=("cluster", "state")
    )
    states = {"running": "running", "ended": "waiting"}
    query = (
        select(job_counts.c.cluster, job_counts.c.state, NUMBER)
        .where(job_counts.c.profiled.is_(False), job_counts.c.state.in_(states))
        .group_by(job_counts.c.cluster, job_counts.c.state)
    )
    for cluster, state, count in connection.execute(query):
        under_way.add_metric((cluster, states[state]), count)
    users = GaugeMetricFamily("jobsight_series", "Learned series, one for each user and metric", labels=("cluster",))
    for cluster, count in connection.execute(select(series.c.cluster, func.count()).group_by(series.c.cluster)):
        users.add_metric((cluster,), count)
    yield from (under_way, users)


def _accuracy(connection: Connection) -> Iterator[Metric]:
    """Yield the accuracy of forecasts at submission over the last 500 runs learned (docs/use/definitions.md)."""
    families = {
        "jobs": GaugeMetricFamily(
            "jobsight_forecast_jobs", "Jobs that the accuracy is measured on, the last ones learned", labels=("metric",)
        ),
        "accuracy": GaugeMetricFamily(
            "jobsight_forecast_accuracy_ratio", "Mean accuracy of forecasts at submission", labels=("metric",)
        ),
        "within20": GaugeMetricFamily(
            "jobsight_forecast_within_20_percent_ratio", "Forecasts within 20 % of the value", labels=("metric",)
        ),
        "coverage": GaugeMetricFamily(
            "jobsight_reservation_coverage_ratio", "Jobs that stayed within the recommended bound", labels=("metric",)
        ),
    }
    for row in recent_accuracy(connection):
        for name, family in families.items():
            if (value := getattr(row, name)) is not None:
                family.add_metric((row.metric,), value)
    yield from families.values()
