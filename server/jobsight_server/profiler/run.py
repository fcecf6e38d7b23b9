"""Profiles the runs that have finished, and lets the forecasters learn them, in order of their end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, text

from jobsight_predictor.ticket import Ticket
from jobsight_server.forecasts.collection import no_collection
from jobsight_server.forecasts.learn import learnable
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.rebuild import rebuild_if_made_otherwise
from jobsight_server.forecasts.round import hold_learning, last_position, learn_round
from jobsight_server.profiler.gather import gather
from jobsight_server.profiler.profile import ABOVE, Entry, missing_labels, profile
from jobsight_server.profiler.ready import Senders, read_finished, ready
from jobsight_server.profiler.sharing import Run, read_presences
from jobsight_server.profiler.usage import Missing
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.tallies import add_tallies

# Only where it is still to be done: whoever changed the run meanwhile, the run is profiled once.
_DONE = text(
    "UPDATE jobs SET profiled = :yes WHERE id IN :runs AND profiled = :no AND state = 'ended' RETURNING id"
).bindparams(bindparam("runs", expanding=True))
_AT_ONCE = 500
_COLUMNS = "run_id, metric, position, value, peak, source, attribution, reason, forecast, bound, probability"
_INSERT = f"INSERT INTO profiles ({_COLUMNS}) VALUES ({', '.join('?' for _ in _COLUMNS.split(','))})"

_BEGINNING = (float("-inf"), 0)

Profile = Mapping[str, Entry]


def profile_finished(
    engine: Engine,
    grace_s: float,
    clock: Callable[[], float],
    limit: int = 200,
    stop: threading.Event | None = None,
    method: Method | None = None,
) -> int:
    """Profiles and learns every ended run whose samples are in, or whose record was read ``grace_s`` ago.

    At most ``limit`` runs are committed together. Returns how many were profiled; ends early when ``stop`` is set.
    What was learned by another ``method`` is learned anew first.
    """
    done, after = 0, _BEGINNING
    method = method or Method()
    rebuild_if_made_otherwise(engine, method)
    with engine.connect().execution_options(reading=True) as connection:
        senders = Senders(connection)
    while not (stop and stop.is_set()):
        # Reading and arithmetic first, without holding up those who write; then a short transaction to store.
        with engine.connect().execution_options(reading=True) as connection:
            finished = read_finished(connection, after, limit)
            if not finished:
                break
            runs = ready(connection, finished, senders, waited_since=clock() - grace_s)
            presences = read_presences(connection, runs)
            profiled = []
            for run, nodes in gather(connection, runs, senders, presences):
                if stop and stop.is_set():
                    break
                profiled.append((run, profile(run, nodes)))
        if profiled:
            with engine.begin() as connection, no_collection():
                done += _store(connection, profiled, method)
        after = (finished[-1].end, finished[-1].id)
    return done


def _store(connection: Connection, profiled: Sequence[tuple[Run, Profile]], method: Method) -> int:
    """Stores and learns the profiles; returns how many of the runs were still to be profiled."""
    hold_learning(connection)
    counts: Counter[tuple[str, str]] = Counter()
    first = last_position(connection)
    stored: dict[int, dict[str, Entry]] = {}
    still_to_do = _mark_done(connection, [run.id for run, _ in profiled])
    for run, found in profiled:
        if run.id in still_to_do:
            entries = {metric: _refused_if_wrong(entry, counts) for metric, entry in found.items()}
            stored[run.id] = entries
            for metric, entry in entries.items():
                counts["profiles", metric] += 1
                counts["cpu_above_1.05", ""] += entry.reason == ABOVE
            for metric, label in missing_labels(entries).items():
                counts["profiles_missing", f"{metric}: {label}"] += 1
    if stored:
        values = {run: {metric: entry.value for metric, entry in entries.items()} for run, entries in stored.items()}
        told = learn_round(connection, method, values, first)
        rows = [
            _row(run, metric, position, entry, told[run, metric])
            for position, (run, entries) in enumerate(stored.items(), first + 1)
            for metric, entry in entries.items()
        ]
        write_many(connection, _INSERT, rows)
    add_tallies(connection, counts)
    return len(stored)


def _mark_done(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Marks the runs as profiled; those of them that were not yet."""
    found: set[int] = set()
    for begin in range(0, len(runs), _AT_ONCE):
        some = {"runs": list(runs[begin : begin + _AT_ONCE]), "yes": True, "no": False}
        found.update(connection.scalars(_DONE, some))
    return found


def _refused_if_wrong(entry: Entry, counts: Counter[tuple[str, str]]) -> Entry:
    """The entry without its value where that is no measurement, so that nobody learns it."""
    if entry.value is None or learnable(entry.value):
        return entry
    kind = "negative" if entry.value < 0 else "not finite"
    counts["profiles_refused", kind] += 1
    missing = Missing(f"its value is {kind}: {entry.value!r}")
    return replace(entry, value=None, peak=None, reason=missing.reason, missing=Missing(f"its value is {kind}"))


def _row(run_id: int, metric: str, position: int, entry: Entry, told: Ticket) -> tuple[Any, ...]:
    """In the order of ``_COLUMNS``."""
    probability = None if told.value is None else told.probability
    measured = (entry.value, entry.peak, entry.source, entry.attribution, entry.reason)
    return (run_id, metric, position, *measured, told.value, told.bound, probability)
