"""A run's profile: a value for each metric, or the reason why there is none (docs/definitions.md, Measurement)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from jobsight_server.profiler.idle import NOT_KNOWN, Idle
from jobsight_server.profiler.memory import NodeMemory, inside, node_memory, together
from jobsight_server.profiler.readings import Boundaries, Readings
from jobsight_server.profiler.sharing import EndedRun, Neighbours, NodeRun, attribution
from jobsight_server.profiler.usage import JobInterval, Missing, Rates, cpu, network

_Use = TypeVar("_Use")

# More CPU time than processors have: kept, but flagged.
CPU_FLAGGED_ABOVE = 1.05
ABOVE = f"above {CPU_FLAGGED_ABOVE}"

# The source of memory values, by what is known about the nodes without the job.
SAMPLES, IDLE_REMEMBERED, IDLE_UNKNOWN = "samples", "samples-idle-remembered", "samples-idle-unknown"

NO_NODES = Missing("the accounting log names no node for it")
NO_PROCESSORS = Missing("the accounting log gives no processors")
NO_TIME = Missing("it ran for less than a second")
NO_SHARE = Missing("other jobs were on {node} and their share is unknown")


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What is known about one node of a run. ``readings`` is None if the node never sent any.

    ``idle`` is its memory without any job; None if unknown.
    """

    node: str
    processors: int
    readings: Readings | None
    boundaries: Boundaries
    neighbours: Neighbours
    idle: Idle | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of a profile: ``value`` and ``peak`` in the metric's unit, or ``missing``.

    For memory, the value is the peak and ``mean`` the time average, if samples give one; ``idle_age_s`` is how far from
    its life the oldest idle level used was read.
    """

    value: float | None
    peak: float | None = None
    source: str | None = None
    attribution: str | None = None
    reason: str | None = None
    missing: Missing | None = None
    mean: float | None = None
    idle_age_s: float | None = None


Measurements = Mapping[str, Measurement]
"""Metric -> its entry."""


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums over the nodes of a run."""

    value: float
    peak: float | None


def profile(run: EndedRun, nodes: Sequence[NodeEvidence]) -> dict[str, Measurement]:
    """The entry of each metric, in the order in which they are stored."""
    length_s = run.end - run.start
    processors = run.processors if run.processors and run.processors > 0 else sum(run.nodes.values())
    how = _attribution_of(nodes)
    found = {
        "bandwidth": _from_samples(_over(nodes, _network_of), how, processors, length_s),
        "memory": _memory(run, nodes, how, processors, length_s),
        "cpu": _cpu(run, nodes, how, processors, length_s),
    }
    return {**found, "runtime": Measurement(length_s, source="accounting")}


def _memory(run: EndedRun, nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    sampled = _sampled_memory(nodes, how, processors, length_s)
    # A log with 0 bytes did not measure: every process has some.
    if run.used_memory_bytes and run.used_memory_bytes > 0:
        logged = _from_log(float(run.used_memory_bytes), processors)
        if logged.value is None or sampled.attribution != "exclusive":
            return logged
        return replace(logged, mean=sampled.mean, idle_age_s=sampled.idle_age_s)
    return sampled


def _sampled_memory(nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    if length_s <= 0:
        return _without(NO_TIME, how)
    if processors <= 0:
        return _without(NO_PROCESSORS, how)
    if not nodes:
        return _without(NO_NODES, how)
    held: list[NodeMemory] = []
    for node in nodes:
        found = _of(node, _memory_of)
        if isinstance(found, Missing):
            source = IDLE_UNKNOWN if found is NOT_KNOWN else None
            return replace(_without(Missing(found.kind, node.node), how), source=source)
        held.append(found)
    use = together(held)
    if isinstance(use, Missing):
        return _without(use, how)
    idle = [node.idle for node in nodes if node.idle is not None]
    return Measurement(
        use.peak / processors,
        use.peak / processors,
        source=IDLE_REMEMBERED if any(one.remembered for one in idle) else SAMPLES,
        attribution=how,
        mean=use.mean / processors,
        idle_age_s=max(one.age_s for one in idle),
    )


def _cpu(run: EndedRun, nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    # Neither memory nor CPU time: the batch system did not get to look before the job was over.
    looked = bool(run.used_cpu_s or run.used_memory_bytes)
    if run.used_cpu_s is not None and length_s > 0 and (looked or run.used_memory_bytes is None):
        entry = _from_log(run.used_cpu_s / length_s, processors)
    else:
        entry = _from_samples(_over(nodes, _cpu_of), how, processors, length_s)
    if entry.value is not None and entry.value > CPU_FLAGGED_ABOVE:
        return Measurement(entry.value, entry.peak, entry.source, entry.attribution, reason=ABOVE)
    return entry


def _from_log(total: float, processors: int) -> Measurement:
    if processors <= 0:
        return _without(NO_PROCESSORS, None)
    # The batch system's sum over the job's own processes is the kernel's accounting for that job.
    return Measurement(total / processors, source="accounting", attribution="cgroup")


def _from_samples(total: Callable[[], _Total | Missing], how: str, processors: int, length_s: float) -> Measurement:
    if length_s <= 0:
        return _without(NO_TIME, how)
    if processors <= 0:
        return _without(NO_PROCESSORS, how)
    found = total()
    if isinstance(found, Missing):
        return _without(found, how)
    peak = None if found.peak is None else found.peak / processors
    return Measurement(found.value / processors, peak, source="samples", attribution=how)


def _without(missing: Missing, how: str | None) -> Measurement:
    return Measurement(None, attribution=how, reason=missing.reason, missing=missing)


def _over(
    nodes: Sequence[NodeEvidence], use: Callable[[NodeEvidence], _Total | Missing]
) -> Callable[[], _Total | Missing]:
    """Sums ``use`` over all nodes; one node without a value leaves the run without one.

    The peak is the sum of the nodes' own peaks: at least what they reached together.
    """

    def total() -> _Total | Missing:
        value, peaks = 0.0, list[float | None]()
        for node in nodes:
            found = _of(node, use)
            if isinstance(found, Missing):
                return Missing(found.kind, node.node)
            value += found.value
            peaks.append(found.peak)
        known = [peak for peak in peaks if peak is not None]
        return _Total(value, sum(known) if len(known) == len(peaks) else None) if nodes else NO_NODES

    return total


def _of(node: NodeEvidence, use: Callable[[NodeEvidence], _Use | Missing]) -> _Use | Missing:
    if node.readings is None:
        return Missing("no samples of {node}")
    if attribution(node.processors, node.neighbours.overlapping) == "unknown":
        return NO_SHARE
    return use(node)


def _network_of(node: NodeEvidence) -> _Total | Missing:
    assert node.readings is not None
    return _highest(network(node.readings, _interval(node), _others(node)), bits=8)


def _cpu_of(node: NodeEvidence) -> _Total | Missing:
    assert node.readings is not None
    return _highest(cpu(node.readings, _interval(node), _others(node)), bits=1)


def _highest(found: Rates | Missing, bits: int) -> _Total | Missing:
    if isinstance(found, Missing):
        return found
    return _Total(float(found.mean.max()) * bits, None if found.peak is None else float(found.peak.max()) * bits)


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


def _attribution_of(nodes: Sequence[NodeEvidence]) -> str:
    found = {attribution(node.processors, node.neighbours.overlapping) for node in nodes}
    for how in ("unknown", "apportioned", "exclusive"):
        if how in found:
            return how
    return "unknown"


def missing_labels(entries: Mapping[str, Measurement]) -> dict[str, str]:
    """Per metric without a value the reason to count it under."""
    return {name: entry.missing.label for name, entry in entries.items() if entry.missing is not None}
