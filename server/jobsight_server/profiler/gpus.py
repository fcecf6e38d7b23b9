"""The use of a job's GPUs by monitoring: of each, how busy it was on average, and its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec
import numpy as np

from jobsight_server.measurements.presets import GPU_LABELS
from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.profiler.usage import MOST_UNKNOWN
from jobsight_server.profiler.values import GpuUse, Measurement
from jobsight_server.settings.measurements import Quantity
from jobsight_server.storage.sample_columns import Floats

_GAP = 2.5  # intervals between two values from which on the use between them is unknown

_Gpu = tuple[str, ...]
"""The node, and the values of the labels that name the GPU there."""


def gpus_of(
    nodes: Mapping[str, Mapping[Quantity, Sequence[MetricSeries]]], start: float, end: float, held: int | None
) -> dict[str, Measurement]:
    """Return the metrics of a job's GPUs that have series.

    The values are the largest sums over all GPUs at one time. ``mean`` of their utilisation is the average number that
    was busy from ``start`` to ``end``; None unless all of the ``held`` ones were read for that long.
    """
    memory, busy, total = (_by_gpu(nodes, name) for name in ("gpu_memory_bytes", "gpus_busy", "gpu_memory_total_bytes"))
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
    found = {}
    if memory:
        found["gpu_memory"] = Measurement(_largest(memory), source="cgroup", attribution="cgroup")
    if busy:
        mean = sum(means) if is_whole else None
        found["gpu_utilisation"] = Measurement(
            _largest(busy), source="cgroup", attribution="cgroup", mean=mean, gpus=each
        )
    return found


def gpus_of_text(text: str | None) -> list[GpuUse]:
    """Parse the GPUs as stored; empty without any."""
    return [] if text is None else msgspec.json.decode(text, type=list[GpuUse])


def gpus_busy(held: int | None, mean: float | None) -> float | None:
    """Return how busy each of the ``held`` GPUs was on average, 0 to 1; ``mean`` is the average number busy."""
    return None if not held or mean is None else min(mean / held, 1.0)


def _by_gpu(nodes: Mapping[str, Mapping[Quantity, Sequence[MetricSeries]]], name: Quantity) -> dict[_Gpu, MetricSeries]:
    return {
        (node, *_named(one.labels)): one
        for node, series in nodes.items()
        for one in series.get(name, ())
        if len(one.time)
    }


def _named(labels: Mapping[str, str]) -> _Gpu:
    return tuple(next((labels[name] for name in names if name in labels), "") for names in GPU_LABELS)


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
