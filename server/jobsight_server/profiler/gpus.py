"""The use of a job's GPUs, by monitoring or by agents: of each, how busy it was on average, and its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf

import msgspec
import numpy as np
from sqlalchemy import Connection, bindparam, select

from jobsight_server.measurements.presets import GPU_LABELS
from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.profiler.exactness import (
    GPUS_NOT_ALL_READ,
    GPUS_NOT_READ,
    GPUS_OF_OTHERS,
    GPUS_UNKNOWN,
    SLACK,
    GpuUse,
    Measurement,
    without,
)
from jobsight_server.profiler.runs import Boundaries, EndedRun
from jobsight_server.profiler.sampled import SAMPLES, NodeEvidence, attribution_of
from jobsight_server.profiler.usage import MOST_UNKNOWN
from jobsight_server.settings.measurements import Quantity
from jobsight_server.storage.readings.gpu_columns import load_gpus
from jobsight_server.storage.readings.sample_columns import Floats
from jobsight_server.storage.schema import gpu_samples

_GAP = 2.5  # intervals between two values from which on the use between them is unknown

_Gpu = tuple[str, ...]
"""The node, and the values of the labels that name the GPU there."""


OfGpus = Mapping[Quantity, Sequence[MetricSeries]]
_METRICS = ("gpu_memory", "gpu_utilisation")
# Largest possible value of one GPU. DCGM writes 2**31 - 16, or nearly 2**63, for unknown.
_MOST: Mapping[Quantity, float] = {"gpu_memory_bytes": 2.0**44, "gpus_busy": SLACK, "gpu_memory_total_bytes": 2.0**44}
_READINGS = (
    select(gpu_samples.c.readings)
    .where(gpu_samples.c.node_id == bindparam("node"))
    .where(gpu_samples.c.last_time >= bindparam("since"), gpu_samples.c.first_time <= bindparam("until"))
    .order_by(gpu_samples.c.first_time)
)


def read_gpus(connection: Connection, node_id: int, at: Boundaries) -> OfGpus:
    """Read the node's GPUs within a life, in the scheduler's clock."""
    found: dict[str, tuple[list[float | None], ...]] = {}  # times, and the columns of its readings
    for packed in connection.scalars(_READINGS, {"node": node_id, "since": at.start, "until": at.end}):
        times, gpus = load_gpus(packed)
        for gpu in gpus:
            total: Sequence[float | None] = [gpu.total_bytes] * len(times)
            columns = found.setdefault(gpu.gpu, ([], [], [], []))
            read: tuple[Sequence[float | None], ...] = (times, gpu.busy_percent, gpu.used_bytes, total)
            for column, values in zip(columns, read, strict=True):
                column.extend(values)
    series: dict[Quantity, list[MetricSeries]] = {}
    for name, columns in found.items():
        rows = np.array(columns, dtype=np.float64)
        time, busy, *bytes_ = rows[:, np.argsort(rows[0], kind="stable")]
        for quantity, value in zip(_MOST, (bytes_[0], busy / 100, bytes_[1]), strict=True):
            known = np.isfinite(value) & (time >= at.start) & (time <= at.end)
            if known.any():
                one = MetricSeries({"gpu": name}, time[known] - at.offset_s, value[known])
                series.setdefault(quantity, []).append(one)
    return series


def gpus_of_nodes(nodes: Sequence[NodeEvidence], run: EndedRun) -> dict[str, Measurement]:
    """Return the metrics of the run's GPUs from agents' readings of its nodes.

    A run that had its nodes alone, or all of their GPUs, used what was read there. Without GPUs in the log, it used
    some only if one was busy.
    """
    read = {node.node: node.gpus for node in nodes if node.gpus is not None}
    found = gpus_of(read, run.start, run.end, run.gpus)
    busiest = found["gpu_utilisation"].value if "gpu_utilisation" in found else None
    if not (run.gpus or busiest):
        return {}
    how = attribution_of(nodes)
    count = len({gpu for name in ("gpus_busy", "gpu_memory_bytes") for gpu in _by_gpu(read, name)})
    if how != "exclusive" and not (count == run.gpus and len(read) == len(nodes)):
        return {name: without(GPUS_UNKNOWN, how) for name in _METRICS}
    missing = {name: without(GPUS_NOT_READ, how) for name in _METRICS}
    return missing | {name: replace(one, source=SAMPLES, attribution="exclusive") for name, one in found.items()}


def gpus_of_monitoring(nodes: Mapping[str, OfGpus], run: EndedRun) -> dict[str, Measurement]:
    """Return the metrics of the run's GPUs from a site's monitoring.

    Some exporters name a job with all parts of its GPU (dcgm-exporter), or with all GPUs that it may open.
    """
    found = gpus_of(nodes, run.start, run.end, run.gpus)
    if run.gpus and any(len(one.gpus or ()) > run.gpus for one in found.values()):
        return {name: without(GPUS_OF_OTHERS, "unknown") for name in found}
    return found


def gpus_of(nodes: Mapping[str, OfGpus], start: float, end: float, held: int | None) -> dict[str, Measurement]:
    """Return the metrics of a job's GPUs that have series.

    The values are the largest sums over all GPUs at one time, lower bounds if fewer than ``held`` were read. ``mean``
    of their utilisation is the average number that was busy from ``start`` to ``end``; None unless all of the ``held``
    ones were read for that long.
    """
    memory, busy, total = (_by_gpu(nodes, name) for name in _MOST)
    most = {gpu: SLACK * one.value.max() for gpu, one in total.items()}
    memory = {gpu: one for gpu, one in memory.items() if one.value.max() <= most.get(gpu, inf)}
    # Each part of a GPU (MIG) counts as one, the whole does not.
    parted = {gpu[:2] for gpu in (*memory, *busy) if gpu[2]}
    for whole in [gpu for gpu in {*memory, *busy} if not gpu[2] and gpu[:2] in parted]:
        memory.pop(whole, None)
        busy.pop(whole, None)
    each = tuple(
        GpuUse(
            "/".join(filter(None, gpu)),
            _mean(busy[gpu], start, end) if gpu in busy else None,
            float(memory[gpu].value.max()) if gpu in memory else None,
            float(total[gpu].value.max()) if gpu in total else None,
        )
        for gpu in sorted({*memory, *busy})
    )
    means = [one.busy for one in each if one.busy is not None]
    is_whole = len(means) == len(each) and len(means) >= (held or 1)
    mean = sum(means) if is_whole else None
    found = {}
    for metric, gpus in zip(_METRICS, (memory, busy), strict=True):
        if gpus:
            entry = Measurement(_largest(gpus), source="cgroup", attribution="cgroup", gpus=each)
            found[metric] = entry.at_least(GPUS_NOT_ALL_READ if len(gpus) < (held or 1) else None)
    if busy:
        found["gpu_utilisation"] = replace(found["gpu_utilisation"], mean=mean)
    return found


def gpus_of_text(text: str | None) -> list[GpuUse]:
    """Parse the GPUs as stored; empty without any."""
    return [] if text is None else msgspec.json.decode(text, type=list[GpuUse])


def gpus_busy(held: int | None, mean: float | None) -> float | None:
    """Return how busy each of the ``held`` GPUs was on average, 0 to 1; ``mean`` is the average number busy."""
    return None if not held or mean is None else min(mean / held, 1.0)


def _by_gpu(nodes: Mapping[str, OfGpus], name: Quantity) -> dict[_Gpu, MetricSeries]:
    """Return the series of each GPU without impossible values; of several, from the first query that has it."""
    every = [one.labels for series in nodes.values() for quantity in _MOST for one in series.get(quantity, ())]
    # Exporters may give some of a GPU's metrics its UUID, and others its index alone.
    shared = [next(((one,) for one in names if all(one in of for of in every)), names) for names in GPU_LABELS]
    found: dict[_Gpu, MetricSeries] = {}
    for node, series in nodes.items():
        for one in series.get(name, ()):
            known = (one.value >= 0.0) & (one.value <= _MOST[name])
            if known.any():
                gpu = (
                    node,
                    *(next((one.labels[label] for label in names if label in one.labels), "") for names in shared),
                )
                found.setdefault(gpu, MetricSeries(one.labels, one.time[known], one.value[known]))
    return found


def _largest(gpus: Mapping[_Gpu, MetricSeries]) -> float:
    # Monitoring scrapes nodes at different seconds.
    time = np.unique(np.concatenate([one.time for one in gpus.values()]))
    total: Floats = np.sum([np.interp(time, one.time, one.value) for one in gpus.values()], axis=0)
    return float(total.max())


def _mean(series: MetricSeries, start: float, end: float) -> float | None:
    """Return the average over time; None if more than a tenth of it is unknown."""
    inside = (series.time >= start) & (series.time <= end)
    time, value = series.time[inside], series.value[inside]
    if len(time) < 2:
        return None
    interval_s = float(np.median(np.diff(time)))
    # The first and the last value hold until the ends.
    edges = np.array(list(chain([start], time, [end])))
    values = np.array(list(chain(value[:1], value, value[-1:])))
    width = np.diff(edges)
    known = width <= _GAP * interval_s
    known_s = float(width[known].sum())
    if known_s < (1.0 - MOST_UNKNOWN) * (end - start):
        return None
    return float((width * (values[1:] + values[:-1]) / 2.0)[known].sum() / known_s)
