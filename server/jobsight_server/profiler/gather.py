"""Everything known about the nodes of many runs, read in few queries, and the profiles made from it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from sqlalchemy import Connection

from jobsight_server.profiler.fabrics import FASTEST
from jobsight_server.profiler.idle import FRESH_S, Idle, idle_before, idle_beside
from jobsight_server.profiler.job_cgroup import job_cgroup, read_job_rows
from jobsight_server.profiler.measurement import Measurements
from jobsight_server.profiler.memory import inside
from jobsight_server.profiler.profile import profile
from jobsight_server.profiler.readings import Boundaries, MarkTime, Readings, boundaries, read_marks, read_windows
from jobsight_server.profiler.ready import SampledNode, SampledNodes
from jobsight_server.profiler.sampled import NodeEvidence, shifted
from jobsight_server.profiler.sharing import (
    EndedRun,
    Neighbours,
    NodeHistories,
    NodeHistory,
    neighbours,
    read_node_histories,
)
from jobsight_server.profiler.usage import JobInterval

# Readings of runs that are read together are in memory together: some 50 MB at one reading per second.
_NODE_SECONDS_AT_ONCE = 1e6


def profiles_of(
    connection: Connection,
    runs: Sequence[EndedRun],
    sampled_nodes: SampledNodes,
    stop: threading.Event | None = None,
    fabric: str = FASTEST,
) -> list[tuple[EndedRun, Measurements]]:
    """The profile of each run, from the current tables; fewer if ``stop`` is set in the meantime.

    ``fabric``: the network whose bandwidth is learned, as in the settings.
    """
    histories = read_node_histories(connection, runs)
    found: list[tuple[EndedRun, Measurements]] = []
    for some in _portions(runs):
        for run, nodes in _gathered(connection, some, sampled_nodes, histories):
            if stop and stop.is_set():
                return found
            found.append((run, profile(run, nodes, fabric)))
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
    connection: Connection, runs: Sequence[EndedRun], sampled_nodes: SampledNodes, histories: NodeHistories
) -> Iterator[tuple[EndedRun, list[NodeEvidence]]]:
    """Each of ``runs`` with what is known about its nodes; without nodes if it names none or took no time."""
    places: list[tuple[EndedRun, str, SampledNode | None]] = [
        (run, node, sampled_nodes.find(run.cluster, node)) for run in runs if run.end > run.start for node in run.nodes
    ]
    asked = [(sampled.id, run.job_id) for run, _, sampled in places if sampled is not None]
    marks, groups = read_marks(connection, asked), read_job_rows(connection, asked)
    lives = [
        _life(run, [] if sampled is None else marks.get((sampled.id, run.job_id), [])) for run, _, sampled in places
    ]
    windows = read_windows(
        connection,
        [(place[2].id, at.start, at.end) for place, at in zip(places, lives, strict=True) if place[2] is not None],
    )
    found: dict[int, list[NodeEvidence]] = {run.id: [] for run in runs}
    for (run, node, sampled), at in zip(places, lives, strict=True):
        there = histories.get((run.cluster, node))
        readings = None if sampled is None else windows.around(sampled.id, at.start, at.end)
        beside = neighbours(run, there, *_span(readings, at))
        idle = None if sampled is None else _idle(connection, sampled.id, run, readings, at, beside, there)
        rows = [] if sampled is None else groups.get((sampled.id, run.job_id), [])
        group = job_cgroup(rows, at, run.next_start)
        speeds = {} if sampled is None else sampled.speeds
        found[run.id].append(NodeEvidence(node, run.nodes[node], readings, at, beside, idle, group, speeds))
    for run in runs:
        yield run, found[run.id]


def _life(run: EndedRun, marks: Sequence[MarkTime]) -> Boundaries:
    return boundaries(marks, run.start, run.end, run.next_start) if marks else Boundaries(run.start, run.end)


def _idle(
    connection: Connection,
    node_id: int,
    run: EndedRun,
    readings: Readings | None,
    at: Boundaries,
    beside: Neighbours,
    there: NodeHistory | None,
) -> Idle | None:
    """The memory of the node without the run: read next to its life, else the last known."""
    interval = JobInterval(at.start, at.end, 1)
    if readings is None or np.count_nonzero(inside(readings, interval)) < 2:
        return None  # nothing to take it from
    near = [shifted(other, at.offset_s) for other in beside.near]
    level = idle_beside(readings, interval, at.start_marked, at.end_marked, near)
    if level is not None or there is None:
        return level
    occupied = there.occupied(run.start - FRESH_S, run.start)
    others = [JobInterval(start + at.offset_s, end + at.offset_s, 1) for start, end in occupied]
    return idle_before(connection, node_id, at.start, others)


def _span(readings: Readings | None, at: Boundaries) -> tuple[float, float]:
    """From the first to the last reading, in the scheduler's clock: what was on the node outside does not matter."""
    if readings is None or not len(readings.time):
        return at.start, at.start
    return float(readings.time[0]) - at.offset_s, float(readings.time[-1]) - at.offset_s
