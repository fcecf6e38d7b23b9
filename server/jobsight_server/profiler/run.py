"""Profiles of finished runs, learned in order of their end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, bindparam, text

from jobsight_server.forecasts.learner import no_collection
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.forecasts.rounds import Learning, lock_learning, rebuild_if_outdated
from jobsight_server.profiler.asking import SiteMonitoring
from jobsight_server.profiler.profile import EventCounts, accepted, forecast_of, observations, row
from jobsight_server.profiler.ready import Own, SampledNodes, profiles_of, read_finished, ready
from jobsight_server.profiler.sharing import EndedRun
from jobsight_server.profiler.totals import add_runs, count_marked
from jobsight_server.profiler.values import Measurement, Measurements
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.job_counts import recounted

# Only if not done yet: even if another process changed the run, it is profiled once.
_DONE = text(
    "UPDATE jobs SET profiled = :yes WHERE id IN :runs AND profiled = :no AND state = 'ended' RETURNING id"
).bindparams(bindparam("runs", expanding=True))
_AT_ONCE = 500
_INSERT = "INSERT INTO profiles ({columns}) VALUES ({values})"

WRITTEN_AT_ONCE = 10000
"""Runs of a backlog to learn before writing the model: most of them change the same parts of it."""

_BEGINNING = (float("-inf"), 0)


def profile_finished(
    engine: Engine,
    grace_s: float,
    clock: Callable[[], float],
    limit: int = 100,
    stop: threading.Event | None = None,
    config: ForecastConfig | None = None,
    own: Own | None = None,
    monitoring: SiteMonitoring | None = None,
) -> int:
    """Profile and learn every ended run whose samples have arrived, or whose record was read ``grace_s`` ago.

    On a cluster whose nodes never sent samples, profile those that ended ``grace_s`` ago; on one of ``monitoring``,
    those whose last values it has had time to read. With ``own``, only these runs, and not before ``grace_s`` after
    their end. At most ``limit`` runs are committed together. Return how many were profiled; end early when ``stop`` is
    set. A model from another ``config`` is retrained first.
    """
    done, after = 0, _BEGINNING
    config = config or ForecastConfig()
    rebuild_if_outdated(engine, config)
    count_marked(engine, stop)
    with engine.connect().execution_options(reading=True) as connection:
        sampled_nodes = SampledNodes(connection)
    learning = Learning(config)
    monitoring = monitoring or SiteMonitoring((), clock)
    while not (stop and stop.is_set()):
        # Reading and arithmetic first, without blocking writers; then a short transaction to store.
        with engine.connect().execution_options(reading=True) as connection:
            finished = read_finished(connection, after, limit)
            if not finished:
                break
            wanted = finished if own is None else [run for run in finished if own.has(run)]
            runs = ready(connection, wanted, sampled_nodes, clock() - grace_s, monitoring, imported=own is not None)
        asked = monitoring.ask(runs, stop)
        with engine.connect().execution_options(reading=True) as connection:
            profiled = profiles_of(connection, asked.runs, sampled_nodes, stop, config.fabric, asked.found)
        if profiled:
            with engine.begin() as connection, no_collection():
                done += _store(connection, profiled, config, learning, asked.counts)
                if learning.unwritten >= WRITTEN_AT_ONCE or len(finished) < limit:
                    learning.write(connection)
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
    with recounted(connection, [run.id for run, _ in profiled]):
        still_to_do = _mark_done(connection, [run.id for run, _ in profiled])
        for run, found in profiled:
            if run.id in still_to_do:
                stored[run.id] = accepted(found, counts)
                for metric in found:
                    counts["profiles", metric] += 1
        if stored:
            measured = {run: observations(entries, config, counts) for run, entries in stored.items()}
            learned_forecasts = learning.learn_round(connection, measured)
            rows = [
                {
                    **row(entry, config),
                    "run_id": run,
                    "metric": metric,
                    "learn_seq": learn_seq,
                    **forecast_of(learned_forecasts[run, metric], entry),
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


def _mark_done(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Mark the runs as profiled; return those that were not yet."""
    found: set[int] = set()
    for begin in range(0, len(runs), _AT_ONCE):
        some = {"runs": list(runs[begin : begin + _AT_ONCE]), "yes": True, "no": False}
        found.update(connection.scalars(_DONE, some))
    return found
