"""Queries to sites' own monitoring for the use of finished runs, before they are profiled."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from jobsight_server.measurements.job_measurements import JobMeasurements, job_measurements
from jobsight_server.measurements.posting import UnavailableError
from jobsight_server.profiler.profile import EventCounts
from jobsight_server.profiler.sharing import EndedRun
from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.storage.seldom import Seldom

log = logging.getLogger(__name__)

PATIENCE_S = 86400.0
"""Longest wait, from a run's end, for monitoring that does not answer."""

_AGAIN_S = 60.0  # pause after a server did not answer
_AT_ONCE = 8


class Asked(NamedTuple):
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
        self._said = Seldom(600.0, 100)

    def is_scraped(self, run: EndedRun) -> bool | None:
        """Return whether the last readings of the run have been scraped by now; None on clusters without monitoring."""
        sources = self._sources.get(run.cluster)
        return None if sources is None else run.end + max(one.delay_s for one in sources) <= self._clock()

    def ask(self, runs: Sequence[EndedRun], stop: threading.Event | None = None) -> Asked:
        """Query the measurements of the runs whose clusters have monitoring.

        A run whose server does not answer is left out until ``PATIENCE_S`` after its end, then profiled without.
        """
        concerned = [run for run in runs if run.cluster in self._sources]
        if not concerned:
            return Asked(list(runs), {}, Counter())

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
        return Asked([run for run in runs if run.id not in waiting], found, counts)

    def _of(self, run: EndedRun) -> JobMeasurements | None:
        """Return the measurements of its cluster's servers; None while one of them does not answer."""
        answers = []
        for source in self._sources[run.cluster]:
            if 0.0 < self._again.get(source.url, 0.0) - self._clock() <= _AGAIN_S:
                return None
            try:
                answers.append(job_measurements(source, run.job_id, list(run.nodes), run.start, run.end))
            except UnavailableError as error:
                self._again[source.url] = self._clock() + _AGAIN_S
                self._say(source.url, f"measurements of {source.cluster}: {error}; jobs wait, asked again in a minute")
                return None
        return _together(answers)

    def _say(self, about: Hashable, text: str) -> None:
        if self._said.lets(about, self._clock()):
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
