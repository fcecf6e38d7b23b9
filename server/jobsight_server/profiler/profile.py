"""A run's profile: a value per processor for each metric, or the reason why there is none [P eq. 11-12]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jobsight_server.profiler.readings import Boundaries, Readings
from jobsight_server.profiler.sharing import Neighbours, Presence, Run, attribution
from jobsight_server.profiler.usage import MemoryUse, Missing, Rates, Stay, cpu, idle_memory, memory, network

# More CPU time than processors have: kept, but said.
CPU_FLAGGED_ABOVE = 1.05
ABOVE = f"above {CPU_FLAGGED_ABOVE}"

NO_NODES = Missing("the accounting log names no node of it")
NO_PROCESSORS = Missing("the accounting log gives no processors")
NO_TIME = Missing("it ran for less than a second")
NO_SHARE = Missing("other jobs were on {node} and their share of it is not known")


@dataclass(frozen=True, slots=True)
class OnNode:
    """What is known of one node of a run. ``readings`` is None where the node never sent any."""

    node: str
    processors: int
    readings: Readings | None
    boundaries: Boundaries
    neighbours: Neighbours


@dataclass(frozen=True, slots=True)
class Entry:
    """One metric of a profile: ``value`` and ``peak`` in the metric's unit, or ``missing``."""

    value: float | None
    peak: float | None = None
    source: str | None = None
    attribution: str | None = None
    reason: str | None = None
    missing: Missing | None = None


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums over the nodes of a run."""

    value: float
    peak: float | None


def profile(run: Run, nodes: Sequence[OnNode]) -> dict[str, Entry]:
    """The entry of each metric, in the order in which they are stored."""
    length_s = run.end - run.start
    processors = run.processors if run.processors and run.processors > 0 else sum(run.nodes.values())
    how = _attribution_of(nodes)
    found = {
        "bandwidth": _from_samples(_over(nodes, _network_of), how, processors, length_s),
        "memory": _memory(run, nodes, how, processors, length_s),
        "cpu": _cpu(run, nodes, how, processors, length_s),
    }
    return {**found, "runtime": Entry(length_s, source="accounting")}


def _memory(run: Run, nodes: Sequence[OnNode], how: str, processors: int, length_s: float) -> Entry:
    # A log that says 0 bytes never looked: every process has some.
    if run.used_memory_bytes and run.used_memory_bytes > 0:
        return _from_log(float(run.used_memory_bytes), processors)
    return _from_samples(_over(nodes, _memory_of), how, processors, length_s)


def _cpu(run: Run, nodes: Sequence[OnNode], how: str, processors: int, length_s: float) -> Entry:
    # Neither memory nor CPU time: the batch system did not get to look before the job was over.
    looked = bool(run.used_cpu_s or run.used_memory_bytes)
    if run.used_cpu_s is not None and length_s > 0 and (looked or run.used_memory_bytes is None):
        entry = _from_log(run.used_cpu_s / length_s, processors)
    else:
        entry = _from_samples(_over(nodes, _cpu_of), how, processors, length_s)
    if entry.value is not None and entry.value > CPU_FLAGGED_ABOVE:
        return Entry(entry.value, entry.peak, entry.source, entry.attribution, reason=ABOVE)
    return entry


def _from_log(total: float, processors: int) -> Entry:
    if processors <= 0:
        return _without(NO_PROCESSORS, None)
    # What the batch system adds up from the job's own processes is the kernel's accounting for that job.
    return Entry(total / processors, source="accounting", attribution="cgroup")


def _from_samples(total: Callable[[], _Total | Missing], how: str, processors: int, length_s: float) -> Entry:
    if length_s <= 0:
        return _without(NO_TIME, how)
    if processors <= 0:
        return _without(NO_PROCESSORS, how)
    found = total()
    if isinstance(found, Missing):
        return _without(found, how)
    peak = None if found.peak is None else found.peak / processors
    return Entry(found.value / processors, peak, source="samples", attribution=how)


def _without(missing: Missing, how: str | None) -> Entry:
    return Entry(None, attribution=how, reason=missing.reason, missing=missing)


def _over(nodes: Sequence[OnNode], use: Callable[[OnNode], _Total | Missing]) -> Callable[[], _Total | Missing]:
    """Adds ``use`` up over all nodes; one node without a value leaves the run without one.

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


def _of(node: OnNode, use: Callable[[OnNode], _Total | Missing]) -> _Total | Missing:
    if node.readings is None:
        return Missing("no samples of {node}")
    if attribution(node.processors, node.neighbours.overlapping) == "unknown":
        return NO_SHARE
    return use(node)


def _network_of(node: OnNode) -> _Total | Missing:
    assert node.readings is not None
    return _highest(network(node.readings, _stay(node), _others(node)), bits=8)


def _cpu_of(node: OnNode) -> _Total | Missing:
    assert node.readings is not None
    return _highest(cpu(node.readings, _stay(node), _others(node)), bits=1)


def _highest(found: Rates | Missing, bits: int) -> _Total | Missing:
    if isinstance(found, Missing):
        return found
    return _Total(float(found.mean.max()) * bits, None if found.peak is None else float(found.peak.max()) * bits)


def _memory_of(node: OnNode) -> _Total | Missing:
    assert node.readings is not None
    offset, at = node.boundaries.offset_s, node.boundaries
    stay = _stay(node)
    near = [_shifted(other, offset) for other in node.neighbours.near]
    idle = idle_memory(node.readings, stay, at.start_marked, at.end_marked, near)
    found = memory(node.readings, stay, _others(node), idle or 0.0)
    return _Total(found.mean, found.peak) if isinstance(found, MemoryUse) else found


def _stay(node: OnNode) -> Stay:
    alone = not node.neighbours.overlapping
    return Stay(node.boundaries.start, node.boundaries.end, 1 if alone else node.processors)


def _others(node: OnNode) -> list[Stay]:
    return [_shifted(other, node.boundaries.offset_s) for other in node.neighbours.overlapping]


def _shifted(other: Presence, offset_s: float) -> Stay:
    """The other run in the node's clock."""
    return Stay(other.start + offset_s, other.end + offset_s, other.processors)


def _attribution_of(nodes: Sequence[OnNode]) -> str:
    found = {attribution(node.processors, node.neighbours.overlapping) for node in nodes}
    for how in ("unknown", "apportioned", "exclusive"):
        if how in found:
            return how
    return "unknown"


def missing_labels(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Per metric without a value the reason to count it under."""
    return {name: entry.missing.label for name, entry in entries.items() if entry.missing is not None}
