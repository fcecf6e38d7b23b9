"""Finished runs to profile now, and their evidence: their samples have arrived, or their waiting time is over."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Double, Engine, Select, bindparam, exists, func, or_, select

from jobsight_server.measurements.job_measurements import JobMeasurements
from jobsight_server.profiler.exactness import Measurements, UseConfig
from jobsight_server.profiler.gpus import gpus_of_monitoring, gpus_of_nodes, read_gpus
from jobsight_server.profiler.memory import Idle, idle_before, idle_beside, inside
from jobsight_server.profiler.profile import profile
from jobsight_server.profiler.runs import (
    FRESH_S,
    Boundaries,
    EndedRun,
    Neighbours,
    NodeHistories,
    NodeHistory,
    Readings,
    boundaries,
    neighbours,
    read_marks,
    read_node_histories,
    read_windows,
)
from jobsight_server.profiler.sampled import NO_READINGS, NodeEvidence, job_cgroup, read_job_rows, shifted
from jobsight_server.profiler.site_monitoring import (
    METRIC_OF,
    SiteMonitoring,
    cgroup_of,
    readings_of_node,
    traffic_of,
)
from jobsight_server.profiler.usage import JobInterval, Speeds, link_speeds, uncounted
from jobsight_server.storage.engine import RUNS, of_runs
from jobsight_server.storage.readings.samples import CHUNK_S
from jobsight_server.storage.schema import boots, gpu_samples, job_nodes, jobs, nodes, profiles, readings

# Clocks of a node and its scheduler differ a little.
_SLACK_S = 1.0

_AGAIN, _SUCH = jobs.alias("again"), jobs.alias("such")
_NEXT_START = select(func.min(_AGAIN.c.start)).where(
    _AGAIN.c.cluster == jobs.c.cluster, _AGAIN.c.job_id == jobs.c.job_id, _AGAIN.c.start > jobs.c.start
)
_USED_OF_MODEL = select(func.max(_SUCH.c.used)).where(
    _SUCH.c.cluster == jobs.c.cluster, _SUCH.c.gpu_model == jobs.c.gpu_model, _SUCH.c.used.is_not(None)
)
_ELSEWHERE = {"next_start": _NEXT_START, "used_of_model": _USED_OF_MODEL}
_RUNS = (
    select(*(jobs.c[field.name] for field in fields(EndedRun) if field.name not in ("nodes", *_ELSEWHERE)))
    .add_columns(*(query.scalar_subquery().label(name) for name, query in _ELSEWHERE.items()))
    .where(jobs.c.state == "ended")
    .order_by(jobs.c.end, jobs.c.id)
    .limit(bindparam("most"))
)
_END = bindparam("after_end", type_=Double)
_AFTER = (jobs.c.end >= _END, or_(jobs.c.end > _END, jobs.c.id > bindparam("after_id")))
_FINISHED = _RUNS.where(~jobs.c.profiled, *_AFTER)
_NO_VALUE = exists().where(profiles.c.run_id == jobs.c.id, profiles.c.value.is_(None), profiles.c.metric != "runtime")
_INCOMPLETE = _RUNS.where(jobs.c.profiled, *_AFTER, jobs.c.start <= bindparam("until"), _NO_VALUE)
_NODES_OF = select(job_nodes).where(job_nodes.c.run_id.in_(RUNS)).order_by(job_nodes.c.run_id, job_nodes.c.node)
_SAMPLED_NODES = select(
    *nodes.c["cluster", "name", "id", "last_time", "interfaces", "cpus", "memory_total_bytes"],
    select(gpu_samples.c.node_id).where(gpu_samples.c.node_id == nodes.c.id).exists(),
)
_BATCH = (
    select(boots.c.boot_id, *readings.c["sequence", "last_sequence", "first_time"])
    .join(boots, boots.c.id == readings.c.boot)
    .where(readings.c.node_id == bindparam("node"))
    .limit(1)
)
_AT, _FIRST = bindparam("at", type_=Double), readings.c.first_time
_LAST_BEFORE = _BATCH.where(readings.c.last_time < _AT, _FIRST < _AT).order_by(_FIRST.desc())
_FIRST_AFTER = _BATCH.where(readings.c.last_time >= _AT, _FIRST >= _AT - CHUNK_S).order_by(_FIRST)


@dataclass(frozen=True, slots=True)
class SampledNode:
    """A node that has sent samples, the time of its newest, the link speeds of its networks, and its size.

    ``too_low``: as in ``NodeEvidence``. ``has_gpus``: its agent reads some.
    """

    id: int
    last_time: float
    speeds: Speeds
    too_low: Mapping[str, str]
    cpus: int
    memory_bytes: int | None
    has_gpus: bool


class Own(NamedTuple):
    """The runs of an import, by job id and start, and their cluster."""

    cluster: str
    runs: Container[tuple[str, float]]

    def has(self, run: EndedRun) -> bool:
        return run.cluster == self.cluster and (run.job_id, run.start) in self.runs


class SampledNodes:
    """Every node that has sent samples, by its name in an accounting log; ``clusters`` are those with such nodes."""

    def __init__(self, connection: Connection) -> None:
        self._known = {
            (cluster, name): SampledNode(node_id, last_time, link_speeds(interfaces), uncounted(interfaces), *others)
            for cluster, name, node_id, last_time, interfaces, *others in connection.execute(_SAMPLED_NODES)
        }
        self.clusters = {cluster for cluster, _ in self._known}

    def find(self, cluster: str, node: str) -> SampledNode | None:
        """Return the node of exactly that name, else of the name before the first dot; None if it never sent any."""
        return self._known.get((cluster, node)) or self._known.get((cluster, node.partition(".")[0]))


def read_finished(connection: Connection, after: tuple[float, int], limit: int) -> list[EndedRun]:
    """Read ended runs without a profile, with their nodes, in order of (end, id), following ``after``."""
    return _read(connection, _FINISHED, after, limit)


def read_incomplete(connection: Connection, after: tuple[float, int], until: float, limit: int) -> list[EndedRun]:
    """Read profiled runs that lack a value, started by ``until``, in order of (end, id), following ``after``."""
    return _read(connection, _INCOMPLETE, after, limit, until=until)


def _read(
    connection: Connection, query: Select[Any], after: tuple[float, int], limit: int, **others: float
) -> list[EndedRun]:
    asked = {"after_end": after[0], "after_id": after[1], "most": limit, **others}
    return with_nodes(connection, [EndedRun(**row._mapping) for row in connection.execute(query, asked)])


def with_nodes(connection: Connection, runs: Sequence[EndedRun]) -> list[EndedRun]:
    """Return the runs with their nodes."""
    nodes: dict[int, dict[str, int]] = {}
    for run_id, node, processors in of_runs(connection, _NODES_OF, [run.id for run in runs]):
        nodes.setdefault(run_id, {})[node] = processors
    return [replace(run, nodes=nodes.get(run.id, {})) for run in runs]


def ready(
    connection: Connection,
    runs: Sequence[EndedRun],
    sampled_nodes: SampledNodes,
    waited_since: float,
    monitoring: SiteMonitoring | None,
    imported: bool = False,
) -> list[EndedRun]:
    """Select the ``runs`` whose samples have arrived, or whose record was read at or before ``waited_since``.

    An ``imported`` record does not show how long samples had time to arrive: there the end of the run counts. The end
    also counts on a cluster without agents, which sends nothing for the jobs of an old log. With a site's own
    monitoring, the run is ready once that has read the last values.
    """

    def waited(run: EndedRun) -> bool:
        is_scraped = monitoring.is_scraped(run) if monitoring else None
        if is_scraped is not None:
            return is_scraped
        by_end = imported or run.cluster not in sampled_nodes.clusters
        return (min(run.recorded_at, run.end) if by_end else run.recorded_at) <= waited_since

    return [run for run in runs if waited(run) or complete(connection, run, sampled_nodes)]


def complete(connection: Connection, run: EndedRun, sampled_nodes: SampledNodes) -> bool:
    """Return whether every node of the run has sent its samples until after the end."""
    nodes = {node: sampled_nodes.find(run.cluster, node) for node in run.nodes}
    return bool(nodes) and all(
        sampled is not None
        and sampled.last_time >= run.end + _SLACK_S
        and not _hole(connection, sampled.id, run.end + _SLACK_S)
        for sampled in nodes.values()
    )


def _hole(connection: Connection, node_id: int, end: float) -> bool:
    """Return whether a batch around ``end`` may still be in transit: a number is missing between those around it."""
    key: Mapping[str, float] = {"node": node_id, "at": end}
    before = connection.execute(_LAST_BEFORE, key).one_or_none()
    after = connection.execute(_FIRST_AFTER, key).one_or_none()
    if before is None or after is None:
        return False
    if after.last_sequence != after.sequence and after.first_time < end:  # between two of the batches merged into it
        return False
    return bool(before.boot_id == after.boot_id and after.sequence > before.last_sequence + 1)


def sent_since(engine: Engine, cluster: str, since: float) -> bool:
    """Return whether a node of the cluster has sent samples since then."""
    with engine.connect().execution_options(reading=True) as connection:
        return bool(connection.scalar(select(exists().where(nodes.c.cluster == cluster, nodes.c.received_at >= since))))


def count_waiting(engine: Engine, own: Own) -> int:
    """Return how many of these runs have ended and are not profiled yet."""
    with engine.connect().execution_options(reading=True) as connection:
        waiting = select(jobs.c.job_id, jobs.c.start).where(~jobs.c.profiled, jobs.c.state == "ended")
        rows = connection.execute(waiting.where(jobs.c.cluster == own.cluster))
        return sum((job_id, start) in own.runs for job_id, start in rows)


# Runs read together at one time: some 50 MB of readings at one per second.
_NODE_SECONDS_AT_ONCE = 1e6


def profiles_of(
    connection: Connection,
    runs: Sequence[EndedRun],
    sampled_nodes: SampledNodes,
    config: UseConfig,
    stop: threading.Event | None = None,
    measured: Mapping[int, JobMeasurements] | None = None,
) -> list[tuple[EndedRun, Measurements]]:
    """Return the profile of each run, from the current tables; fewer if ``stop`` is set in the meantime.

    ``measured``: measurements of the site's own monitoring by run, for nodes that have never sent samples.
    """
    measured = measured or {}
    histories = read_node_histories(connection, runs)
    found: list[tuple[EndedRun, Measurements]] = []
    for some in _portions(runs):
        for run, evidence in _gathered(connection, some, sampled_nodes, histories, measured):
            if stop and stop.is_set():
                return found
            own = measured.get(run.id)
            gpus = {} if own is None else gpus_of_monitoring(own.nodes, run)
            if not gpus and any(node.gpus is not None for node in evidence):
                gpus = gpus_of_nodes(evidence, run)
            logged = replace(run, memory_with_cache=False) if run.cluster in config.resident else run
            found.append((run, profile(logged, evidence, gpus, config.fabric)))
    return found


def _portions(runs: Iterable[EndedRun]) -> Iterator[list[EndedRun]]:
    portion: list[EndedRun] = []
    seconds = 0.0
    for run in runs:
        own = len(run.nodes) * max(0.0, run.end - run.start)
        if portion and seconds + own > _NODE_SECONDS_AT_ONCE:
            yield portion
            portion, seconds = [], 0.0
        portion.append(run)
        seconds += own
    if portion:
        yield portion


def _gathered(
    connection: Connection,
    runs: Sequence[EndedRun],
    sampled_nodes: SampledNodes,
    histories: NodeHistories,
    measured: Mapping[int, JobMeasurements],
) -> Iterator[tuple[EndedRun, list[NodeEvidence]]]:
    """Yield each of ``runs`` with the evidence of its nodes; without nodes if it names none or took no time."""
    places: list[tuple[EndedRun, str, SampledNode | None]] = [
        (run, node, sampled_nodes.find(run.cluster, node)) for run in runs if run.end > run.start for node in run.nodes
    ]
    asked = [(sampled.id, run.job_id) for run, _, sampled in places if sampled is not None]
    marks, groups = read_marks(connection, asked), read_job_rows(connection, asked)
    lives = [
        boundaries(
            marks.get((0 if sampled is None else sampled.id, run.job_id), []), run.start, run.end, run.next_start
        )
        for run, _, sampled in places
    ]
    windows = read_windows(
        connection,
        [(place[2].id, at.start, at.end) for place, at in zip(places, lives, strict=True) if place[2] is not None],
    )
    found: dict[int, list[NodeEvidence]] = {run.id: [] for run in runs}
    for (run, node, sampled), at in zip(places, lives, strict=True):
        there = histories.get((run.cluster, node))
        if sampled is None and run.id in measured:
            found[run.id].append(_evidence(run, node, measured[run.id], there))
            continue
        if sampled is None:
            evidence = NodeEvidence(node, run.nodes[node], None, at, neighbours(run, there, at.start, at.start))
        else:
            readings = windows.around(sampled.id, at.start, at.end)
            beside = neighbours(run, there, *_span(readings, at))
            idle = _idle(connection, sampled.id, run, readings, at, beside, there)
            group = job_cgroup(groups.get((sampled.id, run.job_id), []), at, run.next_start)
            evidence = NodeEvidence(
                node, run.nodes[node], readings, at, beside, idle, group, sampled.speeds, sampled.cpus,
                sampled.memory_bytes, too_low=sampled.too_low,
                gpus=read_gpus(connection, sampled.id, at) if sampled.has_gpus else None,
            )  # fmt: skip
        found[run.id].append(evidence)
    for run in runs:
        yield run, found[run.id]


def _evidence(run: EndedRun, node: str, found: JobMeasurements, there: NodeHistory | None) -> NodeEvidence:
    """Return the evidence of the site's own monitoring alone."""
    series = found.nodes.get(node, {})
    readings, speeds = readings_of_node(series)
    at = Boundaries(run.start, run.end)
    beside = neighbours(run, there, *_span(readings, at))
    idle = None
    if readings is not None:
        near = [shifted(other, 0.0) for other in beside.near]
        idle = idle_beside(readings, JobInterval(at.start, at.end, 1), False, False, near)
    group, traffic = cgroup_of(series), traffic_of(series, run.start)
    too_low = {METRIC_OF[quantity]: why for quantity, why in found.too_low.items() if quantity in METRIC_OF}
    return NodeEvidence(
        node, run.nodes[node], readings, at, beside, idle, group, speeds, None, None, traffic, NO_READINGS, too_low
    )


def _idle(
    connection: Connection,
    node_id: int,
    run: EndedRun,
    readings: Readings,
    at: Boundaries,
    beside: Neighbours,
    there: NodeHistory | None,
) -> Idle | None:
    """Return the memory of the node without the run: read next to its life, else the last known."""
    interval = JobInterval(at.start, at.end, 1)
    if np.count_nonzero(inside(readings, interval)) < 2:
        return None  # nothing from which to subtract it
    near = [shifted(other, at.offset_s) for other in beside.near]
    level = idle_beside(readings, interval, at.start_marked, at.end_marked, near)
    if level is not None or there is None:
        return level
    occupied = there.occupied(run.start - FRESH_S, run.start)
    others = [JobInterval(start + at.offset_s, end + at.offset_s, 1) for start, end in occupied]
    return idle_before(connection, node_id, at.start, others)


def _span(readings: Readings | None, at: Boundaries) -> tuple[float, float]:
    """Return the times of the first and last reading, in the scheduler's clock: jobs outside them do not matter."""
    if readings is None or not len(readings.time):
        return at.start, at.start
    return float(readings.time[0]) - at.offset_s, float(readings.time[-1]) - at.offset_s
