"""What is known about one node of a run, and what its readings give: sums over the nodes of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from jobsight_server.profiler.fabrics import Speeds
from jobsight_server.profiler.idle import NOT_KNOWN, Idle
from jobsight_server.profiler.job_cgroup import JobCgroup
from jobsight_server.profiler.measurement import NO_PROCESSORS, Measurement, without
from jobsight_server.profiler.memory import NodeMemory, inside, node_memory, together
from jobsight_server.profiler.readings import Boundaries, Readings
from jobsight_server.profiler.sharing import Neighbours, NodeRun, attribution
from jobsight_server.profiler.usage import JobInterval, Missing, Rates, cpu, network

_Use = TypeVar("_Use")

# Sources of memory values, by what is known about the nodes without the job.
SAMPLES, IDLE_REMEMBERED, IDLE_UNKNOWN = "samples", "samples-idle-remembered", "samples-idle-unknown"

NO_NODES = Missing("the accounting log names no node for it")
NO_PLACES = Missing("the accounting log does not say how many of its processors were on {node}")
NO_TIME = Missing("it ran for less than a second")
NO_SHARE = Missing("other jobs were on {node} and their share is unknown")


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What is known about one node of a run. ``readings`` is None if the node never sent any.

    ``idle`` is its memory without any job; None if unknown. ``group`` is what the run's own cgroup showed there,
    ``speeds`` are those of the node's networks.
    """

    node: str
    processors: int
    readings: Readings | None
    boundaries: Boundaries
    neighbours: Neighbours
    idle: Idle | None = None
    group: JobCgroup | None = None
    speeds: Speeds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodesTotal:
    """Sums over the nodes of a run."""

    value: float
    peak: float | None


def sampled_memory(nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    """Memory per processor: the largest sum over the nodes at one reading, less what they use without a job."""
    if length_s <= 0:
        return without(NO_TIME, how)
    if processors <= 0:
        return without(NO_PROCESSORS, how)
    if not nodes:
        return without(NO_NODES, how)
    held: list[NodeMemory] = []
    for node in nodes:
        found = _of(node, _memory_of)
        if isinstance(found, Missing):
            source = IDLE_UNKNOWN if found is NOT_KNOWN else None
            return replace(without(Missing(found.kind, node.node), how), source=source)
        held.append(found)
    use = together(held)
    if isinstance(use, Missing):
        return without(use, how)
    idle = [node.idle for node in nodes if node.idle is not None]
    return Measurement(
        use.peak / processors,
        use.peak / processors,
        source=IDLE_REMEMBERED if any(one.remembered for one in idle) else SAMPLES,
        attribution=how,
        mean=use.mean / processors,
        idle_age_s=max(one.age_s for one in idle),
    )


def from_samples(total: Callable[[], NodesTotal | Missing], how: str, processors: int, length_s: float) -> Measurement:
    """The sum over the nodes per processor; ``total`` is only computed for a run with time and processors."""
    if length_s <= 0:
        return without(NO_TIME, how)
    if processors <= 0:
        return without(NO_PROCESSORS, how)
    found = total()
    if isinstance(found, Missing):
        return without(found, how)
    peak = None if found.peak is None else found.peak / processors
    return Measurement(found.value / processors, peak, source="samples", attribution=how)


def over_nodes(
    nodes: Sequence[NodeEvidence], use: Callable[[NodeEvidence], NodesTotal | Missing]
) -> Callable[[], NodesTotal | Missing]:
    """Sums ``use`` over all nodes; one node without a value leaves the run without one.

    The peak is the sum of the nodes' own peaks: at least what they reached together.
    """

    def total() -> NodesTotal | Missing:
        value, peaks = 0.0, list[float | None]()
        for node in nodes:
            found = _of(node, use)
            if isinstance(found, Missing):
                return Missing(found.kind, node.node)
            value += found.value
            peaks.append(found.peak)
        known = [peak for peak in peaks if peak is not None]
        return NodesTotal(value, sum(known) if len(known) == len(peaks) else None) if nodes else NO_NODES

    return total


def _of(node: NodeEvidence, use: Callable[[NodeEvidence], _Use | Missing]) -> _Use | Missing:
    if node.readings is None:
        return Missing("no samples of {node}")
    if node.processors <= 0:
        return NO_PLACES
    if attribution(node.processors, node.neighbours.overlapping) == "unknown":
        return NO_SHARE
    return use(node)


def network_of(node: NodeEvidence) -> NodesTotal | Missing:
    """The run's bits per second on the node, of the busier direction."""
    assert node.readings is not None
    return _highest(network(node.readings, _interval(node), _others(node)), bits=8)


def cpu_of(node: NodeEvidence) -> NodesTotal | Missing:
    """The run's CPU seconds per second on the node."""
    assert node.readings is not None
    return _highest(cpu(node.readings, _interval(node), _others(node)), bits=1)


def _highest(found: Rates | Missing, bits: int) -> NodesTotal | Missing:
    if isinstance(found, Missing):
        return found
    return NodesTotal(float(found.mean.max()) * bits, None if found.peak is None else float(found.peak.max()) * bits)


def _memory_of(node: NodeEvidence) -> NodeMemory | Missing:
    assert node.readings is not None
    interval = _interval(node)
    # A life with hardly any readings has no value, whatever the idle level.
    if node.idle is None and np.count_nonzero(inside(node.readings, interval)) >= 2:
        return NOT_KNOWN
    return node_memory(node.readings, interval, _others(node), 0.0 if node.idle is None else node.idle.bytes)


def _interval(node: NodeEvidence) -> JobInterval:
    alone = not node.neighbours.overlapping
    return JobInterval(node.boundaries.start, node.boundaries.end, 1 if alone else node.processors)


def _others(node: NodeEvidence) -> list[JobInterval]:
    return [shifted(other, node.boundaries.offset_s) for other in node.neighbours.overlapping]


def shifted(other: NodeRun, offset_s: float) -> JobInterval:
    """The other run in the node's clock."""
    return JobInterval(other.start + offset_s, other.end + offset_s, other.processors)


def attribution_of(nodes: Sequence[NodeEvidence]) -> str:
    """The least certain attribution among the nodes."""
    found = {attribution(node.processors, node.neighbours.overlapping) for node in nodes}
    for how in ("unknown", "apportioned", "exclusive"):
        if how in found:
            return how
    return "unknown"
