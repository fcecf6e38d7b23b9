"""A run's profile: a value for each metric, or the reason why there is none (docs/use/definitions.md, Measurement)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import msgspec
import numpy as np

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.profiler.exactness import (
    ABOVE_NODES,
    ABOVE_PROCESSORS,
    CUT_SHORT,
    GPUS_NOT_SEEN,
    NO_START,
    PARTLY_MEASURED,
    RAN_OUT,
    SHORT_S,
    SLACK,
    STARTING_S,
    Measurement,
    Missing,
    decided,
    from_log,
    of_processes,
    plausible,
    unseen,
    why_low,
    without,
)
from jobsight_server.profiler.memory import together
from jobsight_server.profiler.runs import EndedRun, Neighbours
from jobsight_server.profiler.sampled import (
    NodeEvidence,
    attribution_of,
    cgroup_cpu,
    cgroup_memory,
    growth,
    largest,
    peak_was_read,
    rose_after,
    sampled_memory,
    sampled_rate,
)
from jobsight_server.profiler.usage import MOST_UNKNOWN, SUM, by_fabric, cpu, fastest, network
from jobsight_server.settings.declared import Fabric
from jobsight_server.storage.readings.sample_columns import Floats

CGROUP = "cgroup"
BITS = 8.0  # of a byte
_decode_used = msgspec.json.Decoder(dict[str, float]).decode
PRECISE = 0.01  # largest part of a life after a cgroup's last reading, if the log has the CPU time too


def profile(
    run: EndedRun,
    nodes: Sequence[NodeEvidence],
    gpus: Mapping[str, Measurement] | None = None,
    fabric: Fabric = "fastest",
) -> dict[str, Measurement]:
    """Return the entry of each metric, in the order of storing.

    GPUs' metrics only if they were measured (``gpus``) or are in the log.
    """
    length_s = run.end - run.start
    how = attribution_of(nodes)
    found = {
        "bandwidth": _bandwidth(nodes, how, run.asked, length_s, fabric),
        "memory": _memory(run, nodes, how, run.asked, length_s),
        "cpu": _cpu(run, nodes, how, run.held, length_s),
    }
    why = {metric: why for node in nodes for metric, why in node.too_low.items()}
    found = {
        metric: entry if entry.source == "accounting" else entry.at_least(why.get(metric))
        for metric, entry in found.items()
    }
    found["runtime"] = without(NO_START, None) if run.start_unknown else Measurement(run.run_s, source="accounting")
    if run.ended_abnormally or run.exit_status or run.failure:
        found |= {metric: found[metric].at_least(CUT_SHORT) for metric in ("memory", "runtime")}
    known = [value for text in (run.used, run.used_of_model) for value in _decode_used(text or "{}").values()]
    is_seen = run.run_s <= SHORT_S or any(known)
    for metric, used in _decode_used(run.used or "{}").items():
        entry = from_log(used, 1 if METRICS[metric].is_of_job else run.asked)
        found[metric] = entry if is_seen else entry.refused(GPUS_NOT_SEEN)
    for metric, entry in (gpus or {}).items():
        if entry.value is not None or metric not in found:  # the log may have it
            found[metric] = entry
    if run.failure is not None:
        metric = FAILED_METRIC[run.failure]
        found[metric] = found[metric].at_least(RAN_OUT)
    return found


def _memory(run: EndedRun, nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    """Return the run's peak, from its cgroups, the log and its nodes' memory; the average is that of readings."""
    own, is_whole, growing = _cgroup_memory(run, nodes, processors)
    # If the job's processors are unknown, the value is for the whole job, as in questions.
    log = _logged_memory(run, nodes, processors or 1, is_whole, growing)
    of_nodes = sampled_memory(nodes, how, processors, length_s)
    is_first = is_whole and run.memory_quantity != "virtual"
    readings = [own, log, of_nodes] if is_first else [log, of_nodes, own]
    if how != "exclusive" and (own or log):  # a share of its nodes' memory shows less
        readings.remove(of_nodes)
    if (
        not is_whole and log is None and (how != "exclusive" or of_nodes.value is None)
    ):  # the rest of its readings may arrive late
        readings = [of_nodes]
    most = _per(processors, [node.memory_bytes for node in nodes])
    checked = [plausible(one, most, ABOVE_NODES) for one in readings if one is not None]
    found = decided(checked, run.memory_quantity == "virtual")
    read = own if own is not None and is_whole else of_nodes
    if found.value is not None and read in readings:
        found = replace(found, mean=read.mean, idle_age_s=read.idle_age_s)
    groups = [node.group for node in nodes]
    caches = [None if group is None else largest(group.cache) for group in groups]
    peaks = [None if group is None else group.charged_peak for group in groups]
    return replace(found, cache=_per(processors, caches), charged_peak=_per(processors, peaks))


def _per(processors: int, of_nodes: Sequence[float | None]) -> float | None:
    """Return the sum over the nodes per processor; None unless each is known."""
    known = [value for value in of_nodes if value is not None]
    return sum(known) / processors if known and len(known) == len(of_nodes) and processors > 0 else None


def _cgroup_memory(
    run: EndedRun, nodes: Sequence[NodeEvidence], processors: int
) -> tuple[Measurement | None, bool, float]:
    """Return memory from the run's own cgroups, if any was read; whether all were, often enough; and by which share it
    was still growing.
    """
    groups = [node.group for node in nodes if node.group is not None]
    found = [cgroup_memory(node.group, node.boundaries, _times(node)) for node in nodes if node.group is not None]
    held = [one for one in found if not isinstance(one, Missing)]
    total = together(held) if held and processors > 0 else None
    if total is None or total.peak <= 0:  # every process has some
        return None, False, 0.0
    is_whole = total.is_whole and len(held) == len(nodes)
    alive = [(node.group, node.group.time < node.boundaries.end) for node in nodes if node.group is not None]
    growing = sum(growth(group.time[there], group.used[there]) for group, there in alive) / total.peak
    peak, mean = total.peak / processors, total.mean / processors
    entry = Measurement(peak, peak, CGROUP, CGROUP, mean=mean, quantity="resident")
    read = [peak_was_read(group) for group in groups]
    logged = run.used_memory_bytes if len(nodes) == 1 and not run.memory_is_virtual else None
    if rose_after(groups[0], logged):
        growing = inf
    was_read = False if False in read else all(read) or None
    why = why_low(is_whole=is_whole, growing=growing, was_read=was_read, is_part=run.is_incomplete)
    cpu_s = _per(1, [largest(group.cpu_s) for group in groups])
    return of_processes(entry, total.peak, cpu_s, run.run_s, run.held, why), is_whole, growing if is_whole else 0.0


def _logged_memory(
    run: EndedRun, nodes: Sequence[NodeEvidence], processors: int, is_whole: bool, growing: float
) -> Measurement | None:
    """Return memory from the accounting log; None if it has none, or 0 bytes, which no process has.

    Of a job on one node, the kernel's own maximum shows whether the log missed some.
    """
    used = run.used_memory_bytes
    if not used or used < 0:
        return None
    entry = from_log(float(used), processors, run.memory_quantity)
    group = nodes[0].group if len(nodes) == 1 and is_whole and not run.memory_is_virtual else None
    read = None if group is None else peak_was_read(group, used)
    why = why_low(growing=growing, was_read=read, is_part=run.is_incomplete)
    return of_processes(entry, used, None if read else run.used_cpu_s, run.run_s, run.held, why)


def _cpu(run: EndedRun, nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    """Return CPU time per processor and second: of its cgroups, else of the log, else of its nodes."""
    # Neither memory nor CPU time: the job ended before the batch system measured it.
    looked = bool(run.used_cpu_s or run.used_memory_bytes) or run.used_memory_bytes is None
    logged_s = run.used_cpu_s if looked else None
    log = (logged_s, "accounting", run.lacks_nodes)
    read_s = sum(largest(node.group.cpu_s) or 0.0 for node in nodes if node.group is not None)
    if logged_s is not None and read_s > (1.0 + PRECISE) * logged_s + STARTING_S:  # it lacks processes, as killed ones
        log = (read_s, CGROUP, True)
    is_seen = logged_s is not None and not log[2] and unseen(logged_s, run.run_s, processors) is None
    # CPU time after a cgroup's last reading is assumed; a log with CPU time has all of it.
    cpu_s = _cgroup_cpu(nodes, PRECISE if is_seen else MOST_UNKNOWN)
    readings = [sampled_rate(nodes, cpu, how, processors, length_s)]
    for seconds, source, is_part in (log, (cpu_s, CGROUP, False)) if run.run_s > 0 and processors > 0 else ():
        if seconds is not None:
            entry = Measurement(seconds / run.run_s / processors, source=source, attribution=CGROUP)
            missed = unseen(seconds, run.run_s, processors)
            bound = entry.at_least(PARTLY_MEASURED if is_part else None)
            readings = [bound, *readings] if missed is None else [*readings, entry.refused(missed)]
    most = SLACK * max(_per(processors, [node.cpus for node in nodes]) or 1.0, 1.0)
    checked = [plausible(one, most, ABOVE_PROCESSORS) for one in readings]
    above = next((one for one in checked if one.missing is ABOVE_PROCESSORS), readings[-1])
    return next((one for one in checked if one.value is not None), above)


def _times(node: NodeEvidence) -> Floats:
    return np.empty(0) if node.readings is None else node.readings.time


def _cgroup_cpu(nodes: Sequence[NodeEvidence], most_unknown: float) -> float | None:
    """Return CPU seconds from the run's own cgroups; None unless they were read on each of its nodes."""
    groups = [(node, node.group) for node in nodes if node.group is not None]
    found = [cgroup_cpu(group, node.boundaries, _times(node), most_unknown) for node, group in groups]
    known = [cpu_s for cpu_s in found if not isinstance(cpu_s, Missing)]
    return (sum(known) or None) if len(known) == len(nodes) else None  # no process uses none


def _bandwidth(
    nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float, wanted: Fabric
) -> Measurement:
    """Return the bandwidth of its own processes, else of the fastest fabric with traffic, or the sum of all."""
    if nodes and all(node.traffic is not None for node in nodes):
        alone = [replace(node, readings=node.traffic, neighbours=Neighbours((), ())) for node in nodes]
        own = sampled_rate(alone, network, CGROUP, processors, length_s, BITS)
        return own if own.value is None else replace(own, source=CGROUP)
    added = sampled_rate(nodes, network, how, processors, length_s, BITS)
    if added.value is None:
        return added
    parts = {node.node: by_fabric(node.readings, node.speeds) for node in nodes if node.readings is not None}
    names = list(dict.fromkeys(name for fabrics in parts.values() for name in fabrics))
    if SUM in names or not names:
        return replace(added, fabric=SUM if names else None)
    found = {names[0]: added}
    for name in names if len(names) > 1 else ():  # over the nodes that have it
        having = [replace(node, readings=parts[node.node][name]) for node in nodes if name in parts[node.node]]
        found[name] = sampled_rate(having, network, how, processors, length_s, BITS)
    if missing := next((entry for entry in found.values() if entry.value is None), None):
        return missing
    values = {name: entry.value for name, entry in found.items() if entry.value is not None}
    several = values if len(values) > 1 else None
    if wanted == SUM:
        return replace(added, fabric=SUM if several else names[0], fabrics=several)
    speeds = {one: max(node.speeds.get(one, 0.0) for node in nodes) for one in names}
    name = fastest({one: value * processors for one, value in values.items()}, speeds, len(nodes))
    return replace(found[name], fabric=name, fabrics=several)
