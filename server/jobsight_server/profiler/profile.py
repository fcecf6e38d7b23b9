"""A run's profile: a value for each metric, or the reason why there is none (docs/definitions.md, Measurement)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.profiler.fabrics import FASTEST, SUM, Speeds, by_fabric, fastest
from jobsight_server.profiler.idle import NOT_KNOWN, Idle
from jobsight_server.profiler.job_cgroup import JobCgroup, cgroup_cpu, cgroup_memory
from jobsight_server.profiler.memory import NodeMemory, inside, node_memory, together
from jobsight_server.profiler.readings import Boundaries, Readings
from jobsight_server.profiler.sharing import EndedRun, Neighbours, NodeRun, attribution
from jobsight_server.profiler.usage import MOST_UNKNOWN, JobInterval, Missing, Rates, cpu, network

_Use = TypeVar("_Use")

# More CPU time than processors have: kept, but flagged.
CPU_FLAGGED_ABOVE = 1.05
ABOVE = f"above {CPU_FLAGGED_ABOVE}"

CGROUP = "cgroup"
PRECISE = 0.01  # of a life that may follow a cgroup's last reading, where the log has the CPU time too
# The other sources of memory values, by what is known about the nodes without the job.
SAMPLES, IDLE_REMEMBERED, IDLE_UNKNOWN = "samples", "samples-idle-remembered", "samples-idle-unknown"

RAN_OUT = "a lower bound: the job ran out of it"

NO_NODES = Missing("the accounting log names no node for it")
NO_PROCESSORS = Missing("the accounting log gives no processors")
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
class Measurement:
    """One metric of a profile: ``value`` and ``peak`` in the metric's unit, or ``missing``.

    For memory, the value is the peak and ``mean`` the time average, if samples give one; ``idle_age_s`` is how far from
    its life the oldest idle level used was read; ``cache`` is the page cache of its cgroups, added up at its largest on
    each node, and ``charged_peak`` the most that was ever charged to them, which no true peak exceeds.
    ``lower_bound``: the job ran out of it, and would have used more. For bandwidth, ``fabric`` is the network that the
    value is of, and ``fabrics`` has the value of each if there are several.
    """

    value: float | None
    peak: float | None = None
    source: str | None = None
    attribution: str | None = None
    reason: str | None = None
    missing: Missing | None = None
    mean: float | None = None
    idle_age_s: float | None = None
    cache: float | None = None
    charged_peak: float | None = None
    fabric: str | None = None
    fabrics: Mapping[str, float] | None = None
    lower_bound: bool = False


Measurements = Mapping[str, Measurement]
"""Metric -> its entry."""


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums over the nodes of a run."""

    value: float
    peak: float | None


def profile(run: EndedRun, nodes: Sequence[NodeEvidence], fabric: str = FASTEST) -> dict[str, Measurement]:
    """The entry of each metric, in the order in which they are stored."""
    length_s = run.end - run.start
    processors = run.processors if run.processors and run.processors > 0 else sum(run.nodes.values())
    how = _attribution_of(nodes)
    found = {
        "bandwidth": _bandwidth(nodes, how, processors, length_s, fabric),
        "memory": _memory(run, nodes, how, processors, length_s),
        "cpu": _cpu(run, nodes, how, processors, length_s),
    }
    found["runtime"] = Measurement(run.run_s, source="accounting")
    if run.failure is not None:
        metric = FAILED_METRIC[run.failure]
        if found[metric].value is not None:
            found[metric] = replace(found[metric], reason=RAN_OUT, lower_bound=True)
    return found


def _memory(run: EndedRun, nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    found = _cgroup_memory(nodes, processors) or _logged_or_sampled_memory(run, nodes, how, processors, length_s)
    groups = [node.group for node in nodes if node.group is not None]
    if not groups or len(groups) < len(nodes) or processors <= 0:
        return found
    caches = [np.nanmax(group.cache) for group in groups if np.isfinite(group.cache).any()]
    peaks = [group.charged_peak for group in groups if group.charged_peak is not None]
    return replace(
        found,
        cache=float(sum(caches)) / processors if len(caches) == len(nodes) else None,
        charged_peak=sum(peaks) / processors if len(peaks) == len(nodes) else None,
    )


def _cgroup_memory(nodes: Sequence[NodeEvidence], processors: int) -> Measurement | None:
    """From the run's own cgroups; None unless they were read on each of its nodes, often enough."""
    if not nodes or processors <= 0:
        return None
    held: list[NodeMemory] = []
    for node in nodes:
        use = None if node.group is None else cgroup_memory(node.group, node.boundaries)
        if use is None or isinstance(use, Missing):
            return None
        held.append(use)
    total = together(held)
    if isinstance(total, Missing) or total.peak <= 0:  # every process has some
        return None
    peak = total.peak / processors
    return Measurement(peak, peak, source=CGROUP, attribution=CGROUP, mean=total.mean / processors)


def _logged_or_sampled_memory(
    run: EndedRun, nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float
) -> Measurement:
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
    logged = run.used_cpu_s is not None and (looked or run.used_memory_bytes is None)
    # What follows the last reading of a cgroup is an assumption; a log that has the CPU time has all of it.
    cpu_s = _cgroup_cpu(nodes, PRECISE if logged else MOST_UNKNOWN)
    if cpu_s is not None and run.run_s > 0 and processors > 0:
        entry = Measurement(cpu_s / run.run_s / processors, source=CGROUP, attribution=CGROUP)
    elif run.used_cpu_s is not None and run.run_s > 0 and (looked or run.used_memory_bytes is None):
        entry = _from_log(run.used_cpu_s / run.run_s, processors)
    else:
        entry = _from_samples(_over(nodes, _cpu_of), how, processors, length_s)
    if entry.value is not None and entry.value > CPU_FLAGGED_ABOVE:
        return Measurement(entry.value, entry.peak, entry.source, entry.attribution, reason=ABOVE)
    return entry


def _cgroup_cpu(nodes: Sequence[NodeEvidence], most_unknown: float) -> float | None:
    """CPU seconds from the run's own cgroups; None unless they were read on each of its nodes."""
    found = [
        cgroup_cpu(
            node.group,
            node.boundaries,
            np.empty(0) if node.readings is None else node.readings.time,
            most_unknown,
        )
        for node in nodes
        if node.group is not None
    ]
    known = [cpu_s for cpu_s in found if not isinstance(cpu_s, Missing)]
    return (sum(known) or None) if len(known) == len(nodes) else None  # no process uses none


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
    if node.processors <= 0:
        return NO_PLACES
    if attribution(node.processors, node.neighbours.overlapping) == "unknown":
        return NO_SHARE
    return use(node)


def _bandwidth(nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float, wanted: str) -> Measurement:
    """Of the fabric that is ``wanted``: one by name, the fastest with traffic, or all added up."""
    added = _from_samples(_over(nodes, _network_of), how, processors, length_s)
    if added.value is None:
        return added
    parts = {node.node: by_fabric(node.readings, node.speeds) for node in nodes if node.readings is not None}
    names = list(dict.fromkeys(name for fabrics in parts.values() for name in fabrics))
    if SUM in names or not names:
        return replace(added, fabric=SUM if names else None)
    found = {names[0]: added}
    if len(names) > 1:
        found = {name: _on_fabric(name, nodes, parts, how, processors, length_s) for name in names}
    if missing := next((entry for entry in found.values() if entry.value is None), None):
        return missing
    values = {name: entry.value for name, entry in found.items() if entry.value is not None}
    several = values if len(values) > 1 else None
    if wanted == SUM:
        return replace(added, fabric=SUM if several else names[0], fabrics=several)
    name = wanted
    if wanted == FASTEST:
        speeds = {one: max(node.speeds.get(one, 0.0) for node in nodes) for one in names}
        name = fastest({one: value * processors for one, value in values.items()}, speeds, len(nodes))
    if name not in found:
        return replace(_without(Missing(f"its nodes have no {name}"), how), fabrics=several)
    return replace(found[name], fabric=name, fabrics=several)


def _on_fabric(
    name: str,
    nodes: Sequence[NodeEvidence],
    parts: Mapping[str, Mapping[str, Readings]],
    how: str,
    processors: int,
    length_s: float,
) -> Measurement:
    """The bandwidth on one fabric, over the nodes that have it."""
    having = [replace(node, readings=parts[node.node][name]) for node in nodes if name in parts[node.node]]
    return _from_samples(_over(having, _network_of), how, processors, length_s)


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
