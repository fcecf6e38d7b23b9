"""Measures again what an older release measured differently, if the samples are still there.

Release 0.1 learned memory as a time average. The migration drops these values and names their runs in ``remeasure``;
here each gets its peak, with its old ``learn_seq``, or the reason why it no longer has a value. The model is then
retrained as after a change of settings; until then, nothing is stored in ``series``.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import replace

from sqlalchemy import Engine, bindparam, delete, select, text, update

from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.round import lock_learning
from jobsight_server.profiler.gather import profiles_of
from jobsight_server.profiler.measurement import Measurement
from jobsight_server.profiler.ready import SampledNodes, read_runs
from jobsight_server.profiler.rows import EventCounts, accepted, observations, row
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.savings_to_do import day_of, mark
from jobsight_server.storage.schema import profiles, remeasure, series

log = logging.getLogger(__name__)

DROPPED = "dropped: release 0.1 learned its time average, and the peak is not known"

_NEXT = select(remeasure).order_by(remeasure.c.run_id, remeasure.c.metric)
_DONE = text("DELETE FROM remeasure WHERE run_id = :run_id AND metric = :metric")
_UPDATE = update(profiles).where(profiles.c.run_id == bindparam("of_run"), profiles.c.metric == bindparam("of_metric"))


def measure_again(engine: Engine, config: ForecastConfig, limit: int = 200, stop: threading.Event | None = None) -> int:
    """Processes everything, ``limit`` values per transaction; ends early when ``stop`` is set.

    Returns how many were measured or dropped, which is also counted and logged.
    """
    totals: EventCounts = Counter()
    while not (stop and stop.is_set()):
        with engine.connect().execution_options(reading=True) as connection:
            wanted = [(run_id, metric) for run_id, metric in connection.execute(_NEXT.limit(limit))]
            if not wanted:
                break
            runs = read_runs(connection, list(dict.fromkeys(run_id for run_id, _ in wanted)))
            again = profiles_of(connection, runs, SampledNodes(connection), stop, config.fabric)
            found = {run.id: entries for run, entries in again}
        counts: EventCounts = Counter()
        with engine.begin() as connection:
            lock_learning(connection)
            for run_id, metric in wanted:
                key = {"run_id": run_id, "metric": metric}
                if run_id in found and connection.execute(_DONE, key).rowcount:
                    entry = _entry(metric, accepted({metric: found[run_id][metric]}, Counter())[metric], counts)
                    observations({metric: entry}, config, counts)
                    connection.execute(_UPDATE.values(row(entry, config)), {"of_run": run_id, "of_metric": metric})
            mark(connection, [day_of(run.end) for run in runs])
            connection.execute(delete(series))  # the model was trained without these values
            add_event_counts(connection, counts)
        totals += counts
    measured, dropped = (_sum(totals, name) for name in ("profiles_remeasured", "profiles_dropped"))
    if measured or dropped:
        log.info("values of release 0.1: measured %d again, dropped %d; see the page Rejected data", measured, dropped)
    return measured + dropped


def _entry(metric: str, entry: Measurement, counts: EventCounts) -> Measurement:
    if entry.value is not None:
        counts["profiles_remeasured", metric] += 1
        return entry
    reason = entry.missing.label if entry.missing else ""
    counts["profiles_dropped", f"{metric}: {DROPPED}: {reason}"] += 1
    return replace(entry, reason=f"{DROPPED}: {entry.reason}")


def _sum(counts: EventCounts, name: str) -> int:
    return sum(count for (found, _), count in counts.items() if found == name)
