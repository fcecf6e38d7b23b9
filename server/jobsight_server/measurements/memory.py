"""A job's memory on a node from the names that an exporter has: anonymous and shared memory, without page cache.

Meaning of the names, by preset and version of cgroups:

- ``cgroup_exporter`` on cgroup v1: ``rss`` is anonymous memory. On v2, since late 2024, it holds all of ``cache``, too.
- ``jobstats``: ``rss`` is anonymous memory, and ``shmem`` the shared memory.
- ``slurm_job_exporter`` and ``ceems``, on both: ``rss`` is anonymous memory.
- ``cache`` is page cache and shared memory, everywhere.

Without ``shmem`` the truth lies between anonymous memory and that with ``cache``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jobsight_server.measurements.presets import Part
from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.storage.readings.sample_columns import Floats

NO_SHARED = "a lower bound: its exporter does not tell shared memory from page cache"

_CLOSE = 1.02  # times the smallest that memory may be, for a value that counts as exact
_READ_TOGETHER, _KERNEL_BYTES = 0.95, 2**20  # parts are not read at the very moment of the whole
_V2 = re.compile(r"\.(slice|scope)/")


class JobMemory(NamedTuple):
    """``used`` is the job's memory, and ``cache`` its page cache where that is known; ``too_low``: why there may be
    more.
    """

    used: MetricSeries
    cache: MetricSeries | None
    too_low: str | None


def job_memory(parts: Mapping[Part, MetricSeries]) -> JobMemory | None:
    """Return the memory at the times at which all of the exporter's parts are known; None without any of it."""
    main: Part = "anonymous" if "anonymous" in parts else "rss"
    if main not in parts:
        return None
    time = parts[main].time
    for name in parts.keys() - {"used"}:  # which only shows the version
        time = np.intersect1d(time, parts[name].time)
    if not len(time):
        return None
    at = {name: _at(series, time) for name, series in parts.items()}
    anonymous, cache = at[main], at.get("cache", np.full(len(time), np.inf))
    if main == "rss" and "cache" in at and _holds_cache(parts[main], at):
        anonymous = np.maximum(anonymous - cache, 0.0)
    labels = parts[main].labels
    if "shmem" in at:
        used = MetricSeries(labels, time, anonymous + at["shmem"])
        page_cache = MetricSeries(labels, time, np.maximum(cache - at["shmem"], 0.0)) if "cache" in at else None
        return JobMemory(used, page_cache, None)
    is_close = float((anonymous + cache).max()) <= _CLOSE * float(anonymous.max())
    return JobMemory(
        MetricSeries(labels, time, anonymous),
        MetricSeries(labels, time, cache) if is_close else None,
        None if is_close else NO_SHARED,
    )


def _holds_cache(rss: MetricSeries, at: Mapping[Part, Floats]) -> bool:
    """Return whether ``rss`` may contain ``cache``: on cgroup v2, or if together they exceed the cgroup's charge."""
    if _V2.search(rss.labels.get("cgroup", "")):
        return True
    rest = at["used"] - at["rss"] if "used" in at else at["cache"]
    return bool(np.any(rest + _KERNEL_BYTES < _READ_TOGETHER * at["cache"]))


def _at(series: MetricSeries, time: Floats) -> Floats:
    """Return the values at these times; NaN where there is none."""
    found = np.full(len(time), np.nan)
    known = np.isin(time, series.time)
    found[known] = series.value[np.searchsorted(series.time, time[known])]
    return found
