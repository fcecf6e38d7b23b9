"""Applications whose jobs lately need another amount than before."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from jobsight_server.forecasts.last_runs import OUT_OF_MEMORY, OUT_OF_TIME, LastRun
from jobsight_server.ground.amounts import DAY_S, size_text
from jobsight_server.ground.answers import Record
from jobsight_server.savings.sums.kept import as_date

_LATELY_DAYS = 14
_BEFORE_LEAST, _SINCE_LEAST = 10, 5
_DISTANCE, _BY_CHANCE = 0.35, 1e-4
_BINS = 12
_FAILURE = {"memory": OUT_OF_MEMORY, "runtime": OUT_OF_TIME}
_GIB_HOUR = 2.0**30 * 3600.0

Metric = Literal["memory", "runtime"]


class Histogram(Record):
    """Numbers of jobs between ``edges``, in bytes or seconds, before a change and since."""

    metric: Literal["memory", "runtime"]
    edges: list[float]
    before: list[int]
    since: list[int]


class Change(NamedTuple):
    """A change in one metric: a sentence without its subject, the jobs on both sides, and the GiB-hours a week that
    jobs since then requested above the memory that they used."""

    text: str
    before_jobs: int
    since_jobs: int
    unused_gib_hours_a_week: float
    histogram: Histogram


def changed_applications(runs: Sequence[LastRun], now: float) -> dict[str, Change]:
    """Return the applications of a user's last runs whose memory, or else run time, changed in the last two weeks."""
    of_application: dict[str, list[LastRun]] = defaultdict(list)
    for run in runs:
        if run.application and run.end is not None:
            of_application[run.application].append(run)
    found = {}
    for application, of in of_application.items():
        change = _change(of, "memory", now) or _change(of, "runtime", now)
        if change is not None:
            found[application] = change
    return found


def _change(runs: Sequence[LastRun], metric: Metric, now: float) -> Change | None:
    """Return the change at the day that separates the jobs best, unless it may be chance (Kolmogorov-Smirnov, in which
    jobs submitted together count once)."""
    used = [(run, run.memory_bytes if metric == "memory" else run.runtime_s) for run in runs]
    known = [(run, value) for run, value in used if value is not None and run.failure != _FAILURE[metric]]
    if len(known) < _BEFORE_LEAST + _SINCE_LEAST:
        return None
    known.sort(key=lambda of: of[0].end or 0.0)
    ends = [run.end or 0.0 for run, _ in known]
    today, best, day, at = int(now // DAY_S), -0.5 * np.log(_BY_CHANCE / 2.0), None, -1
    for candidate in range(today - _LATELY_DAYS, today):
        last_at, at = at, bisect_left(ends, candidate * DAY_S)
        if at == last_at or at < _BEFORE_LEAST or len(known) - at < _SINCE_LEAST:
            continue
        parts = known[:at], known[at:]
        n, m = (len({run.submitted for run, _ in part}) for part in parts)
        if n < _BEFORE_LEAST or m < _SINCE_LEAST:
            continue
        distance = _distance(*([value for _, value in part] for part in parts))
        weight = distance**2 * n * m / (n + m)
        if distance > _DISTANCE and weight > best:
            best, day, divided = weight, candidate, parts
    if day is None:
        return None
    (_, before), (since_runs, since) = (zip(*part, strict=True) for part in divided)
    weeks = max(1.0, now / DAY_S - day) / 7.0
    unused = sum(max(0.0, (run.requested_memory_bytes or 0.0) - run.memory_bytes) * (run.runtime_s or 0.0)
                 for run in since_runs if run.memory_bytes is not None) / _GIB_HOUR / weeks  # fmt: skip
    noun = "memory" if metric == "memory" else "run time"
    became = f"{noun} {_range(before, metric)} became {_range(since, metric)}"
    text = f"since {as_date(day):%-d %b}: {became}; {unused:,.0f} GiB-hours a week unused"
    return Change(text, len(before), len(since), unused, _histogram(metric, before, since))


def _distance(before: Sequence[float], since: Sequence[float]) -> float:
    """Return the largest difference between the shares of values up to an amount.

    >>> _distance([1, 2, 3, 4], [3, 4, 5, 6])
    0.5
    """
    old, new = np.sort(before), np.sort(since)
    at = np.concatenate([old, new])
    shares = [np.searchsorted(part, at, "right") / len(part) for part in (old, new)]
    return float(np.abs(shares[0] - shares[1]).max())


def _histogram(metric: Metric, before: Sequence[float], since: Sequence[float]) -> Histogram:
    both = np.array([*before, *since])
    edges = np.linspace(both.min(), both.max() * (1.0 + 1e-9), _BINS + 1)
    counted = [np.histogram(part, edges)[0].tolist() for part in (before, since)]
    return Histogram(metric, edges.tolist(), *counted)


def _range(values: Sequence[float], metric: Metric) -> str:
    """Return the median and its spread if it is narrow, else the range of nine jobs in ten."""
    low, middle, high = map(float, np.quantile(values, (0.05, 0.5, 0.95)))
    half = max(high - middle, middle - low)
    low_text, middle_text, high_text, half_text = (
        size_text(value) if metric == "memory" else f"{value / 60:,.0f} min" for value in (low, middle, high, half)
    )
    return f"{middle_text} ± {half_text}" if half <= 0.25 * middle else f"{low_text} to {high_text}"
