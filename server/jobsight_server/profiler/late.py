"""Second profiles of runs whose samples arrived after the first.

A learned value stays as it is. A metric without one gets its value when the samples arrive, and is learned then, with
its own ``learn_seq``: retraining from the stored rows still gives the same model, and a kill at any time cannot teach a
value twice.

The writer records late batches as it stores them (storage.late_batches). Each is examined twice: soon, for the runs
whose samples are now complete, and after the grace period, for the other runs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, bindparam, update

from jobsight_server.forecasts.events import Observations, last_learn_seq, observed
from jobsight_server.forecasts.outcomes import claim
from jobsight_server.forecasts.request import ForecastConfig, read_jobs
from jobsight_server.forecasts.rounds import catch_up, lock_learning
from jobsight_server.profiler.profile import EventCounts, accepted, observations, row
from jobsight_server.profiler.ready import SampledNodes, complete, profiles_of, read_incomplete
from jobsight_server.profiler.sharing import EndedRun
from jobsight_server.profiler.totals import add_runs, take_back_runs
from jobsight_server.profiler.values import Measurements
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.late_batches import Spans, forget, new_late, see, settled_late
from jobsight_server.storage.schema import profiles

# Time before and after a run's life with readings that may matter: its idle level, a mark.
_BEFORE_S = 3600.0
_AFTER_S = 300.0
_FILL = update(profiles).where(
    profiles.c.run_id == bindparam("of_run"),
    profiles.c.metric == bindparam("of_metric"),
    profiles.c.value.is_(None),
)


def profile_late(
    engine: Engine,
    grace_s: float,
    clock: Callable[[], float],
    limit: int = 200,
    stop: threading.Event | None = None,
    config: ForecastConfig | None = None,
) -> int:
    """Fill in the values that late samples allow and learn them, at most ``limit`` runs per transaction.

    Returns how many values were found. Work that ``stop`` interrupts is repeated.
    """
    config = config or ForecastConfig()
    with engine.connect().execution_options(reading=True) as connection:
        new = new_late(connection)
    found = _fill(engine, new.spans, True, limit, stop, config)
    if stop and stop.is_set():
        return found
    if new.spans:
        with engine.begin() as connection:
            see(connection, new)
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        settled = settled_late(connection, now, grace_s)
    found += _fill(engine, settled.spans, False, limit, stop, config)
    if settled.spans and not (stop and stop.is_set()):
        with engine.begin() as connection:
            forget(connection, settled, now, grace_s)
    return found


def _fill(
    engine: Engine, spans: Spans, whole: bool, limit: int, stop: threading.Event | None, config: ForecastConfig
) -> int:
    """Profile the runs again whose life ``spans`` overlap; with ``whole``, only those whose samples are complete."""
    if not spans:
        return 0
    found = 0
    after = (min(first for first, _ in spans.values()) - _AFTER_S, 0)
    until = max(last for _, last in spans.values()) + _BEFORE_S
    while not (stop and stop.is_set()):
        with engine.connect().execution_options(reading=True) as connection:
            runs = read_incomplete(connection, after, until, limit)
            if not runs:
                break
            sampled_nodes = SampledNodes(connection)
            near = [run for run in runs if _concerned(run, sampled_nodes, spans)]
            if whole:
                near = [run for run in near if complete(connection, run, sampled_nodes)]
            profiled = profiles_of(connection, near, sampled_nodes, stop, config.fabric)
        if profiled:
            with engine.begin() as connection:
                found += _store(connection, profiled, config)
        after = (runs[-1].end, runs[-1].id)
    return found


def _concerned(run: EndedRun, sampled_nodes: SampledNodes, spans: Spans) -> bool:
    for node in run.nodes:
        sampled = sampled_nodes.find(run.cluster, node)
        first, last = spans.get(sampled.id, (run.end, run.start)) if sampled else (run.end, run.start)
        if sampled and sampled.id in spans and first <= run.end + _AFTER_S and last >= run.start - _BEFORE_S:
            return True
    return False


def _store(connection: Connection, profiled: Sequence[tuple[EndedRun, Measurements]], config: ForecastConfig) -> int:
    """Store and learn the values of metrics that had none; return their number."""
    lock_learning(connection)
    catch_up(connection, config)
    counts: EventCounts = Counter()
    learn_seq = last_learn_seq(connection)
    # Not their whole day: that takes seconds at a large site.
    counted = [run.id for run, _ in profiled]
    take_back_runs(connection, counted)
    measured: dict[int, Observations] = {}
    for run, profile in profiled:
        filled = {}
        for metric, entry in accepted(profile, Counter()).items():
            key = {"of_run": run.id, "of_metric": metric}
            columns = row(entry, config)
            if entry.value is None:  # the reason may have changed
                connection.execute(_FILL.values(columns), key)
            elif connection.execute(_FILL.values({**columns, "learn_seq": learn_seq + 1}), key).rowcount:
                filled[metric] = entry
                counts["profiles_late", metric] += 1
        if filled:
            learn_seq += 1
            measured[run.id] = observations(filled, config, counts)
    known = read_jobs(connection, list(measured))
    claim(
        connection, known, {run_id: observed(known[run_id], found, is_late=True) for run_id, found in measured.items()}
    )
    catch_up(connection, config)
    add_runs(connection, counted)
    add_event_counts(connection, counts)
    return sum(len(found) for found in measured.values())
