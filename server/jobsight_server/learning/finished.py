"""Profiles of finished runs, learned in order of their end; and second profiles, after late samples.

A learned value stays as it is. A metric without one gets its value when the samples arrive, and is learned then, with
its own ``learn_seq``: retraining from the stored rows still gives the same model, and a kill at any time cannot teach a
value twice. The writer records late batches as it stores them (storage.late_batches). Each is examined twice: soon, for
the runs whose samples are now complete, and after the grace period, for the other runs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing

from sqlalchemy import Connection, Engine, bindparam, text, update

from jobsight_server.forecasts.events import UNKNOWN, Observations, last_learn_seq, observed
from jobsight_server.forecasts.learner import no_collection
from jobsight_server.forecasts.outcomes import claim
from jobsight_server.forecasts.request import ForecastConfig, read_jobs
from jobsight_server.forecasts.rounds import Learning, catch_up, lock_learning, rebuild_if_outdated
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.profiler.exactness import Measurement, Measurements
from jobsight_server.profiler.profile import EventCounts, accepted, forecast_of, observations, row
from jobsight_server.profiler.ready import (
    Own,
    SampledNodes,
    complete,
    profiles_of,
    read_finished,
    read_incomplete,
    ready,
)
from jobsight_server.profiler.runs import EndedRun
from jobsight_server.profiler.site_monitoring import MeasuredRuns, SiteMonitoring
from jobsight_server.savings.totals import add_runs, count_marked, take_back_runs
from jobsight_server.storage.engine import of_runs, write_many
from jobsight_server.storage.job_counts import recounted
from jobsight_server.storage.readings.late_batches import Spans, forget, new_late, see, settled_late
from jobsight_server.storage.schema import profiles

# Only if not done yet: even if another process changed the run, it is profiled once.
_DONE = text(
    "UPDATE jobs SET profiled = :yes WHERE id IN :runs AND profiled = :no AND state = 'ended' RETURNING id"
).bindparams(bindparam("runs", expanding=True))
_INSERT = "INSERT INTO profiles ({columns}) VALUES ({values})"

WRITTEN_AT_ONCE = 30_000
"""Runs of a backlog to learn before writing the model: most of them change the same parts of it."""

_BEGINNING = (float("-inf"), 0)


@no_collection()
def profile_finished(
    engine: Engine,
    grace_s: float,
    clock: Callable[[], float],
    limit: int = 100,
    stop: threading.Event | None = None,
    config: ForecastConfig | None = None,
    own: Own | None = None,
    monitoring: SiteMonitoring | None = None,
    progress: Callable[[int], None] | None = None,
    processes: int = 1,
) -> int:
    """Profile and learn every ended run whose samples have arrived, or whose record was read ``grace_s`` ago.

    On a cluster whose nodes never sent samples, profile those that ended ``grace_s`` ago; on one of ``monitoring``,
    those whose last values it has had time to read. With ``own``, only these runs, and not before ``grace_s`` after
    their end. At most ``limit`` runs are committed together. Return how many were profiled; end early when ``stop`` is
    set. A model from another ``config`` is retrained first. ``progress`` gets the number in each transaction.
    Up to so many ``processes`` learn.

    Raises:
        UserError: one of the other processes has ended; the last transaction is undone.
    """
    done, after = 0, _BEGINNING
    config = config or ForecastConfig()
    rebuild_if_outdated(engine, config)
    count_marked(engine, stop)
    with engine.connect().execution_options(reading=True) as connection:
        sampled_nodes = SampledNodes(connection)
    with closing(Learning(config, processes)) as learning:
        while not (stop and stop.is_set()):
            # Reading and arithmetic first, without blocking writers; then a short transaction to store.
            with engine.connect().execution_options(reading=True) as connection:
                finished = read_finished(connection, after, limit)
                if not finished:
                    break
                wanted = finished if own is None else [run for run in finished if own.has(run)]
                runs = ready(connection, wanted, sampled_nodes, clock() - grace_s, monitoring, imported=own is not None)
            asked = monitoring.ask(runs, stop) if monitoring else MeasuredRuns(runs, {}, Counter())
            with engine.connect().execution_options(reading=True) as connection:
                profiled = profiles_of(connection, asked.runs, sampled_nodes, config, stop, asked.found)
            if profiled:
                with engine.begin() as connection:
                    stored = _store(connection, profiled, config, learning, asked.counts)
                    done += stored
                    if learning.unwritten >= WRITTEN_AT_ONCE or len(finished) < limit:
                        learning.write(connection)
                if progress is not None:
                    progress(stored)
            after = (finished[-1].end, finished[-1].id)
        if learning.unwritten:
            with engine.begin() as connection:
                lock_learning(connection)
                learning.write(connection)
    return done


def _store(
    connection: Connection,
    profiled: Sequence[tuple[EndedRun, Measurements]],
    config: ForecastConfig,
    learning: Learning,
    counts: EventCounts,
) -> int:
    """Store and learn the profiles, and ``counts``; return how many of the runs were not profiled before."""
    lock_learning(connection)
    last = learning.begin(connection)
    stored: dict[int, dict[str, Measurement]] = {}
    runs = [run.id for run, _ in profiled]
    with recounted(connection, runs):
        still_to_do = {run_id for (run_id,) in of_runs(connection, _DONE, runs, yes=True, no=False)}
        for run, found in profiled:
            if run.id in still_to_do:
                stored[run.id] = accepted(found, counts)
                for metric in found:
                    counts["profiles", metric] += 1
        if stored:
            measured = {run: observations(entries, counts) for run, entries in stored.items()}
            learned_forecasts = learning.learn_round(connection, measured)
            rows = [
                {
                    **row(entry),
                    "run_id": run,
                    "metric": metric,
                    "learn_seq": learn_seq if metric == "runtime" else 0,
                    **forecast_of(learned_forecasts.get((run, metric), UNKNOWN)),
                }
                for learn_seq, (run, entries) in enumerate(stored.items(), last + 1)
                for metric, entry in entries.items()
            ]
            write_many(
                connection,
                _INSERT.format(columns=", ".join(rows[0]), values=", ".join("?" for _ in rows[0])),
                [tuple(each.values()) for each in rows],
            )
            add_runs(connection, list(stored))
    add_event_counts(connection, counts)
    return len(stored)


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
            profiled = profiles_of(connection, near, sampled_nodes, config, stop)
        if profiled:
            with engine.begin() as connection:
                found += _store_late(connection, profiled, config)
        after = (runs[-1].end, runs[-1].id)
    return found


def _concerned(run: EndedRun, sampled_nodes: SampledNodes, spans: Spans) -> bool:
    nodes = [sampled_nodes.find(run.cluster, node) for node in run.nodes]
    late = [spans[node.id] for node in nodes if node is not None and node.id in spans]
    return any(first <= run.end + _AFTER_S and last >= run.start - _BEFORE_S for first, last in late)


def _store_late(
    connection: Connection, profiled: Sequence[tuple[EndedRun, Measurements]], config: ForecastConfig
) -> int:
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
            columns = row(entry)
            if entry.value is None:  # the reason may have changed
                connection.execute(_FILL.values(columns), key)
            elif connection.execute(_FILL.values({**columns, "learn_seq": learn_seq + 1}), key).rowcount:
                filled[metric] = entry
                counts["profiles_late", metric] += 1
        if filled:
            learn_seq += 1
            measured[run.id] = observations(filled, counts)
    known = read_jobs(connection, list(measured))
    claim(
        connection, known, {run_id: observed(known[run_id], found, is_late=True) for run_id, found in measured.items()}
    )
    catch_up(connection, config)
    add_runs(connection, counted)
    add_event_counts(connection, counts)
    return sum(len(found) for found in measured.values())
