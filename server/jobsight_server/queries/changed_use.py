"""Applications whose jobs lately need another amount than before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from jobsight_server.accounting.amounts import size_text
from jobsight_server.forecasts.record import Record
from jobsight_server.forecasts.such_jobs import OUT_OF_MEMORY, OUT_OF_TIME, SuchJob
from jobsight_server.profiler.kept_sums import as_date
from jobsight_server.storage.event_counts import DAY_S

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
    """A change in one metric: a sentence without its subject, the jobs on both sides, and the GiB-hours of memory that
    the application's jobs request in a week."""

    text: str
    before_jobs: int
    since_jobs: int
    gib_hours_a_week: float
    histogram: Histogram


def changed_applications(runs: Sequence[SuchJob], now: float) -> dict[str, Change]:
    """Return the applications of a user's last runs whose memory, or else run time, changed in the last two weeks."""
    of_application: dict[str, list[SuchJob]] = defaultdict(list)
    for run in runs:
        if run.application and run.job_id and run.end is not None:
            of_application[run.application].append(run)
    found = {}
    for application, of in of_application.items():
        change = _change(of, "memory", now) or _change(of, "runtime", now)
        if change is not None:
            found[application] = change
    return found


def _change(runs: Sequence[SuchJob], metric: Metric, now: float) -> Change | None:
    """Return the change at the day that separates the jobs best, unless it may be chance (Kolmogorov-Smirnov, in which
    jobs submitted together count once)."""
    used = [(run, run.memory_bytes if metric == "memory" else run.runtime_s) for run in runs]
    known = [(run, value) for run, value in used if value is not None and run.failure != _FAILURE[metric]]
    if len(known) < _BEFORE_LEAST + _SINCE_LEAST:
        return None
    today, best, day = int(now // DAY_S), -0.5 * np.log(_BY_CHANCE / 2.0), None
    for candidate in range(today - _LATELY_DAYS, today):
        parts = _parts(known, candidate)
        n, m = (len({run.submitted for run, _ in part}) for part in parts)
        if n < _BEFORE_LEAST or m < _SINCE_LEAST:
            continue
        distance = _distance(*([value for _, value in part] for part in parts))
        weight = distance**2 * n * m / (n + m)
        if distance > _DISTANCE and weight > best:
            best, day = weight, candidate
    if day is None:
        return None
    (_, before), (since_runs, since) = (zip(*part, strict=True) for part in _parts(known, day))
    weeks = max(1.0, now / DAY_S - day) / 7.0
    held = sum((run.requested_memory_bytes or 0.0) * (run.runtime_s or 0.0) for run in since_runs) / _GIB_HOUR
    noun = "memory" if metric == "memory" else "run time"
    text = f"since {as_date(day):%-d %b}: {noun} {_range(before, metric)} became {_range(since, metric)}"
    return Change(text, len(before), len(since), held / weeks, _histogram(metric, before, since))


def _parts(known: Sequence[tuple[SuchJob, float]], day: int) -> tuple[list[tuple[SuchJob, float]], ...]:
    at = day * DAY_S
    return [each for each in known if (each[0].end or 0.0) < at], [each for each in known if (each[0].end or 0.0) >= at]


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
