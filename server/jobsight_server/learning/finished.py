"""Finished runs, profiled and learned in the order of their end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, select, update

from jobsight_server.forecasts.events import UNKNOWN, Judged, Observation, Observations
from jobsight_server.forecasts.learner import learnable, no_collection
from jobsight_server.forecasts.request import NOT_LEARNED, ForecastConfig
from jobsight_server.forecasts.rounds import Learning, lock_learning
from jobsight_server.ground.event_counts import EventCounts, add_event_counts
from jobsight_server.profiler.exactness import Measurement, Measurements, Missing, without
from jobsight_server.profiler.ready import (
    Own,
    SampledNodes,
    profiles_of,
    read_finished,
    ready,
)
from jobsight_server.profiler.runs import EndedRun
from jobsight_server.profiler.site_monitoring import MeasuredRuns, SiteMonitoring
from jobsight_server.savings.sums.add import add_runs, count_marked
from jobsight_server.storage.engine import RUNS, insertion, of_runs, write_many
from jobsight_server.storage.job_counts import recounted
from jobsight_server.storage.schema import jobs, profiles

# Only if not done yet: even if another process changed the run, it is profiled once.
_TO_DO = (jobs.c.id.in_(RUNS), ~jobs.c.profiled, jobs.c.state == "ended")
_DONE = update(jobs).where(*_TO_DO).values(profiled=True).returning(jobs.c.id)
_PEAK = select(profiles.c.value).where(profiles.c.run_id == jobs.c.id, profiles.c.metric == "memory").scalar_subquery()
KEEP_PEAKS = update(jobs).values(peak_memory_bytes=_PEAK).where(jobs.c.id.in_(RUNS))

WRITTEN_AT_ONCE = 30_000
"""Runs of a backlog to learn before writing the model: most of them change the same parts of it."""

_BEGINNING = (float("-inf"), 0)


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """How finished runs are learned.

    ``rebuild_if_outdated`` comes before. With ``own``, only these runs, and not before the grace period after their
    end. At most ``limit`` runs are committed together. It ends early when ``stop`` is set. ``progress`` gets the number
    in each transaction. Up to so many ``processes`` learn.
    """

    config: ForecastConfig = field(default_factory=ForecastConfig)
    monitoring: SiteMonitoring | None = None
    own: Own | None = None
    limit: int = 100
    stop: threading.Event | None = None
    progress: Callable[[int], None] | None = None
    processes: int = 1

    @property
    def is_stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()


AS_USUAL = LearningOptions()


@no_collection()
def profile_finished(
    engine: Engine, grace_s: float, clock: Callable[[], float], options: LearningOptions = AS_USUAL
) -> int:
    """Profile and learn every ended run whose samples have arrived, or whose record was read ``grace_s`` ago.

    On a cluster whose nodes never sent samples, profile those that ended ``grace_s`` ago; on one of the options'
    ``monitoring``, those whose last values it has had time to read. Return how many were profiled.

    Raises:
        UserError: one of the other processes has ended; the last transaction is undone.
    """
    done, after = 0, _BEGINNING
    config, own, monitoring, stop = options.config, options.own, options.monitoring, options.stop
    count_marked(engine, stop)
    sampled_nodes: SampledNodes | None = None
    with closing(Learning(config, options.processes)) as learning:
        while not options.is_stopped:
            # Reading and arithmetic first, without blocking writers; then a short transaction to store.
            with engine.connect().execution_options(reading=True) as connection:
                finished = read_finished(connection, after, options.limit)
                if not finished:
                    break
                sampled_nodes = sampled_nodes or SampledNodes(connection)
                wanted = finished if own is None else [run for run in finished if own.has(run)]
                runs = ready(connection, wanted, sampled_nodes, clock() - grace_s, monitoring, imported=own is not None)
            asked = monitoring.ask(runs, stop) if monitoring else MeasuredRuns(runs, {}, Counter())
            with engine.connect().execution_options(reading=True) as connection:
                profiled = profiles_of(connection, asked.runs, sampled_nodes, config, stop, asked.found)
            if profiled:
                with engine.begin() as connection:
                    stored = _store(connection, profiled, learning, asked.counts)
                    done += stored
                    if learning.unwritten >= WRITTEN_AT_ONCE or len(finished) < options.limit:
                        learning.write(connection)
                if options.progress is not None:
                    options.progress(stored)
            after = (finished[-1].end, finished[-1].id)
        if learning.unwritten:
            with engine.begin() as connection:
                lock_learning(connection)
                learning.write(connection)
    return done


def _store(
    connection: Connection,
    profiled: Sequence[tuple[EndedRun, Measurements]],
    learning: Learning,
    counts: EventCounts,
) -> int:
    """Store and learn the profiles, and ``counts``; return how many of the runs were not profiled before."""
    lock_learning(connection)
    last = learning.begin(connection)
    stored: dict[int, dict[str, Measurement]] = {}
    runs = [run.id for run, _ in profiled]
    with recounted(connection, runs):
        still_to_do = {run_id for (run_id,) in of_runs(connection, _DONE, runs)}
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
            write_many(connection, insertion(profiles, [*rows[0]]), [tuple(each.values()) for each in rows])
            of_runs(connection, KEEP_PEAKS, list(stored))
            add_runs(connection, list(stored))
    add_event_counts(connection, counts)
    return len(stored)


_STORED = (
    "value", "peak", "mean", "idle_age_s", "cache", "charged_peak", "fabric", "source", "attribution", "reason",
    "lower_bound", "quantity",
)  # fmt: skip


def accepted(entries: Measurements, counts: EventCounts) -> dict[str, Measurement]:
    """Return the entries without invalid values; missing and rejected values are counted by reason."""
    found = {metric: _refused_if_wrong(entry, counts) for metric, entry in entries.items()}
    for metric, entry in found.items():
        if entry.missing is not None:
            counts["profiles_missing", f"{metric}: {entry.missing.label}"] += 1
    return found


def observations(entries: Measurements, counts: EventCounts) -> Observations:
    """Return the value to learn for each metric; None without one. Count values that are only shown."""
    found: Observations = {}
    for metric, entry in entries.items():
        is_evidence = entry.value is not None and entry.attribution not in NOT_LEARNED
        found[metric] = Observation(entry.value or 0.0, entry.lower_bound) if is_evidence else None
        why = "lower bound" if entry.lower_bound else entry.attribution
        counts["profiles_shown_only", f"{metric}: {why}"] += entry.value is not None and not _is_learned(entry)
    return found


def _is_learned(entry: Measurement) -> bool:
    return entry.attribution not in NOT_LEARNED and not entry.lower_bound


def _refused_if_wrong(entry: Measurement, counts: EventCounts) -> Measurement:
    """Return the entry, without its value if that is not a valid measurement, to keep it out of learning."""
    if entry.value is None or learnable(entry.value):
        return entry
    kind = "negative" if entry.value < 0 else "not finite"
    counts["profiles_refused", kind] += 1
    return replace(without(Missing(f"its value is {kind}"), entry.attribution), source=entry.source)


def row(entry: Measurement) -> dict[str, Any]:
    """Return the columns of ``profiles`` for the measurement."""
    return {name: getattr(entry, name) for name in _STORED} | {
        "fabrics": None if entry.fabrics is None else msgspec.json.encode(entry.fabrics).decode(),
        "shown_only": entry.value is not None and not _is_learned(entry),
        "gpus": None if entry.gpus is None else msgspec.json.encode(entry.gpus).decode(),
    }


def forecast_of(judged: Judged) -> dict[str, Any]:
    """Return the columns of ``profiles`` for the forecasts of a value."""
    attempts = tuple(judged.attempts)
    text = None if attempts in ((), (judged.bound,)) else msgspec.json.encode(attempts).decode()
    return judged._asdict() | {"attempts": text}
