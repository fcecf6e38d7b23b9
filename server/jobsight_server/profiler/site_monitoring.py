"""A site's own monitoring: queries for the use of finished runs, and the answers in the form of agents' readings.

The series of a job's own processes become a cgroup's readings and traffic of its own, those of a node its readings.
A counter that fell was reset: its counts until the next value are unknown.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from jobsight_server.ground.event_counts import EventCounts
from jobsight_server.ground.seldom import Seldom
from jobsight_server.measurements.job_measurements import JobMeasurements, job_measurements
from jobsight_server.measurements.posting import NoAnswerError
from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.profiler.runs import EndedRun, Readings
from jobsight_server.profiler.sampled import JobCgroup
from jobsight_server.profiler.usage import Speeds
from jobsight_server.settings.measurements import QUANTITIES, MeasurementSource, Quantity
from jobsight_server.storage.readings.sample_columns import Floats

log = logging.getLogger(__name__)

PATIENCE_S = 86400.0
"""Longest wait, from a run's end, for monitoring that does not answer."""

_AGAIN_S = 60.0  # pause after a server did not answer
_AT_ONCE = 8


class MeasuredRuns(NamedTuple):
    """The runs to profile, and their measurements by run; runs of other clusters have none."""

    runs: list[EndedRun]
    found: dict[int, JobMeasurements]
    counts: EventCounts


class SiteMonitoring:
    """The clusters' monitoring servers, and those that do not answer at present."""

    def __init__(self, sources: Sequence[MeasurementSource], clock: Callable[[], float]) -> None:
        self._sources: dict[str, list[MeasurementSource]] = {}
        for source in sources:
            self._sources.setdefault(source.cluster, []).append(source)
        self._clock = clock
        self._again: dict[str, float] = {}
        self._log_limit = Seldom(600.0, 100)

    def is_scraped(self, run: EndedRun) -> bool | None:
        """Return whether the last readings of the run have been scraped by now; None on clusters without monitoring."""
        sources = self._sources.get(run.cluster)
        return None if sources is None else run.end + max(one.delay_s for one in sources) <= self._clock()

    def ask(self, runs: Sequence[EndedRun], stop: threading.Event | None = None) -> MeasuredRuns:
        """Query the measurements of the runs whose clusters have monitoring.

        A run whose server does not answer is left out until ``PATIENCE_S`` after its end, then profiled without.
        """
        concerned = [run for run in runs if run.cluster in self._sources]
        if not concerned:
            return MeasuredRuns(list(runs), {}, Counter())

        def of(run: EndedRun) -> JobMeasurements | None:
            return None if stop and stop.is_set() else self._of(run)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = dict(zip((run.id for run in concerned), pool.map(of, concerned), strict=True))
        found = {run_id: answer for run_id, answer in answers.items() if answer is not None}
        # If it must stop, not all of them were queried.
        is_over = not (stop and stop.is_set())
        given_up = {
            run.id for run in concerned if is_over and run.id not in found and run.end + PATIENCE_S <= self._clock()
        }
        counts: EventCounts = Counter({("measurements_missed", ""): len(given_up)})
        for run in concerned:
            for quantity, reason in found[run.id].refused.items() if run.id in found else ():
                counts["measurements_refused", f"{run.cluster}: {quantity}"] += 1
                self._say((run.cluster, quantity), reason)
        waiting = set(answers) - set(found) - given_up
        return MeasuredRuns([run for run in runs if run.id not in waiting], found, counts)

    def _of(self, run: EndedRun) -> JobMeasurements | None:
        """Return the measurements of its cluster's servers; None while one of them does not answer."""
        answers = []
        for source in self._sources[run.cluster]:
            if 0.0 < self._again.get(source.url, 0.0) - self._clock() <= _AGAIN_S:
                return None
            try:
                answers.append(job_measurements(source, run.job_id, list(run.nodes), run.start, run.end))
            except NoAnswerError as error:
                self._again[source.url] = self._clock() + _AGAIN_S
                self._say(source.url, f"measurements of {source.cluster}: {error}; jobs wait, asked again in a minute")
                return None
        return _together(answers)

    def _say(self, about: Hashable, text: str) -> None:
        if self._log_limit.lets(about, self._clock()):
            log.warning("%s", text)


def _together(answers: Sequence[JobMeasurements]) -> JobMeasurements:
    """Merge several servers' measurements: the first with a quantity of a node counts."""
    if len(answers) == 1:
        return answers[0]
    nodes = {
        node: {
            quantity: series for answer in reversed(answers) for quantity, series in answer.nodes.get(node, {}).items()
        }
        for node in dict.fromkeys(node for answer in answers for node in answer.nodes)
    }
    refused = {quantity: why for answer in answers for quantity, why in answer.refused.items()}
    too_low = {quantity: why for answer in reversed(answers) for quantity, why in answer.too_low.items()}
    return JobMeasurements(nodes, refused, too_low)


OfNode = Mapping[Quantity, Sequence[MetricSeries]]

METRIC_OF: Mapping[Quantity, str] = {
    quantity: "memory" if "memory" in quantity else "cpu" if "cpu" in quantity else "bandwidth"
    for quantity in QUANTITIES
    if "gpu" not in quantity and quantity not in ("cache_bytes", "peak_bytes")
}
"""Metric of each quantity, without GPUs and quantities that are only shown."""

# Largest time from a job's start to its first reading, in intervals, for counters to begin at 0.
_FIRST_WITHIN = 2.5


class _Sum(NamedTuple):
    """The sum of several series where all are known, and the unknown seconds until then."""

    value: Floats
    gap_s: Floats


def cgroup_of(series: OfNode) -> JobCgroup | None:
    """Return CPU time and memory of the job's own processes; None without series."""
    names: tuple[Quantity, ...] = ("cpu_s", "memory_bytes", "cache_bytes")
    time = _times(series, names)
    if not len(time):
        return None
    cpu_s, used, cache = (series.get(name, ()) for name in names)
    peaks = [float(one.value.max()) for one in series.get("peak_bytes", ()) if len(one.value)]
    return JobCgroup(
        time, _counted(cpu_s, time, from_zero=True).value, _level(used, time), _level(cache, time),
        max(peaks, default=None),
    )  # fmt: skip


def traffic_of(series: OfNode, start: float) -> Readings | None:
    """Return the received and sent bytes of the job's own processes; None unless both are known."""
    received, sent = series.get("received_bytes", ()), series.get("sent_bytes", ())
    if not received or not sent:
        return None
    parts = [[_from_start(part, start) for part in parts if len(part.time)] for parts in (received, sent)]
    time = _union([*parts[0], *parts[1]])
    incoming, outgoing = (_counted(one, time) for one in parts)
    unknown = np.full(len(time), np.nan)
    gap_s = np.maximum(incoming.gap_s, outgoing.gap_s)
    return Readings(time, incoming.value, outgoing.value, unknown, unknown, gap_s)


def readings_of_node(series: OfNode) -> tuple[Readings | None, Speeds]:
    """Return the readings of a whole node, and its networks; None without any."""
    pairs: tuple[tuple[Quantity, Quantity], ...] = (
        ("node_received_bytes", "node_infiniband_received_bytes"),
        ("node_sent_bytes", "node_infiniband_sent_bytes"),
    )
    time = _times(series, ("node_cpu_s", "node_memory_bytes", *pairs[0], *pairs[1]))
    if not len(time):
        return None, {}
    cards = [_counted(series.get(name, ()), time) for name, _ in pairs]
    fabric = [_counted(series.get(name, ()), time) for _, name in pairs]
    cpu = _counted(series.get("node_cpu_s", ()), time)
    has_fabric = np.isfinite(fabric[0].value).any()
    totals = [_added(card.value, part.value) for card, part in zip(cards, fabric, strict=True)]
    gap_s = np.maximum.reduce([one.gap_s for one in (*cards, *fabric, cpu)])
    memory = _level(series.get("node_memory_bytes", ()), time)
    infiniband = (fabric[0].value, fabric[1].value) if has_fabric else None
    speeds = ({"ethernet": 0.0} if "node_received_bytes" in series else {}) | (
        {"infiniband": 0.0} if has_fabric else {}
    )
    return Readings(time, totals[0], totals[1], cpu.value, memory, gap_s, infiniband), speeds


def _times(series: OfNode, names: Sequence[Quantity]) -> Floats:
    return _union([one for name in names for one in series.get(name, ())])


def _union(parts: Sequence[MetricSeries]) -> Floats:
    return np.unique(np.concatenate([part.time for part in parts])) if parts else np.empty(0)


def _from_start(part: MetricSeries, start: float) -> MetricSeries:
    """Return the counter of a job with its beginning: 0 at the start, if its first reading is soon after."""
    if len(part.time) < 2 or not 0.0 < part.time[0] - start <= _FIRST_WITHIN * float(np.median(np.diff(part.time))):
        return part
    return MetricSeries(part.labels, np.append(start, part.time), np.append(0.0, part.value))


def _level(parts: Sequence[MetricSeries], time: Floats) -> Floats:
    """Return the sum of gauges at each ``time`` at which all of them have a value; parts of 0 may be missing."""
    parts = [part for part in parts if len(part.time)]
    total = np.full(len(time), np.nan)
    if not parts:
        return total
    known = np.logical_and.reduce([np.isin(time, part.time) for part in parts])
    total[known] = sum(part.value[np.isin(part.time, time[known])] for part in parts)
    return total


def _counted(parts: Sequence[MetricSeries], time: Floats, *, from_zero: bool = False) -> _Sum:
    """Return the sum of counters at each of ``time`` between their first and last value.

    ``from_zero``: after a fall, the counter restarted at 0 and is continued, as for a recreated cgroup. Otherwise the
    time of the fall is unknown.
    """
    parts = [part for part in parts if len(part.time)]
    gap_s, total = np.zeros(len(time)), np.zeros(len(time))
    if not parts:
        return _Sum(np.full(len(time), np.nan), gap_s)
    for part in parts:
        rise = np.diff(part.value)
        fell = rise < 0
        rise[fell] = part.value[1:][fell] if from_zero else 0.0
        total += np.interp(time, part.time, part.value[0] + np.append(0.0, rise.cumsum()))
        unknown_s = np.append(0.0, np.where(fell, np.diff(part.time), 0.0).cumsum())
        gap_s = np.maximum(gap_s, np.interp(time, part.time, unknown_s))
    first, last = min(part.time[0] for part in parts), max(part.time[-1] for part in parts)
    total[(time < first) | (time > last)] = np.nan
    return _Sum(total, gap_s)


def _added(one: Floats, other: Floats) -> Floats:
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))
