"""Profiles the runs that have finished, and lets the forecasters learn them, in order of their end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, bindparam, text

from jobsight_server.forecasts.collection import no_collection
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.rebuild import rebuild_if_made_otherwise
from jobsight_server.forecasts.round import hold_learning, last_position, learn_round
from jobsight_server.profiler.gather import profiles_of
from jobsight_server.profiler.profile import Entry, Profile
from jobsight_server.profiler.ready import Own, Senders, read_finished, ready
from jobsight_server.profiler.remeasure import measure_again
from jobsight_server.profiler.rows import accepted, forecast_of, learned, row
from jobsight_server.profiler.sharing import Run
from jobsight_server.storage.fetch import write_many
from jobsight_server.storage.tallies import add_tallies

# Only where it is still to be done: whoever changed the run meanwhile, the run is profiled once.
_DONE = text(
    "UPDATE jobs SET profiled = :yes WHERE id IN :runs AND profiled = :no AND state = 'ended' RETURNING id"
).bindparams(bindparam("runs", expanding=True))
_AT_ONCE = 500
_INSERT = "INSERT INTO profiles ({columns}) VALUES ({values})"

_BEGINNING = (float("-inf"), 0)


def profile_finished(
    engine: Engine,
    grace_s: float,
    clock: Callable[[], float],
    limit: int = 200,
    stop: threading.Event | None = None,
    method: Method | None = None,
    own: Own | None = None,
) -> int:
    """Profiles and learns every ended run whose samples are in, or whose record was read ``grace_s`` ago.

    With ``own`` these runs alone, and not before ``grace_s`` after their end. At most ``limit`` runs are committed
    together. Returns how many were profiled; ends early when ``stop`` is set. What an older release measured otherwise
    is measured again first, and what another ``method`` made is retrained.
    """
    done, after = 0, _BEGINNING
    method = method or Method()
    measure_again(engine, method, limit, stop)
    if stop and stop.is_set():
        return 0
    rebuild_if_made_otherwise(engine, method)
    with engine.connect().execution_options(reading=True) as connection:
        senders = Senders(connection)
    while not (stop and stop.is_set()):
        # Reading and arithmetic first, without holding up those who write; then a short transaction to store.
        with engine.connect().execution_options(reading=True) as connection:
            finished = read_finished(connection, after, limit)
            if not finished:
                break
            wanted = finished if own is None else [run for run in finished if own.has(run)]
            runs = ready(connection, wanted, senders, clock() - grace_s, imported=own is not None)
            profiled = profiles_of(connection, runs, senders, stop)
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
            stored[run.id] = accepted(found, counts)
            for metric in found:
                counts["profiles", metric] += 1
    if stored:
        values = {run: learned(entries, method, counts) for run, entries in stored.items()}
        told = learn_round(connection, method, values, first)
        rows = [
            {
                **row(entry, method),
                "run_id": run,
                "metric": metric,
                "position": position,
                **forecast_of(told[run, metric]),
            }
            for position, (run, entries) in enumerate(stored.items(), first + 1)
            for metric, entry in entries.items()
        ]
        write_many(
            connection,
            _INSERT.format(columns=", ".join(rows[0]), values=", ".join("?" for _ in rows[0])),
            [tuple(each.values()) for each in rows],
        )
    add_tallies(connection, counts)
    return len(stored)


def _mark_done(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Marks the runs as profiled; those of them that were not yet."""
    found: set[int] = set()
    for begin in range(0, len(runs), _AT_ONCE):
        some = {"runs": list(runs[begin : begin + _AT_ONCE]), "yes": True, "no": False}
        found.update(connection.scalars(_DONE, some))
    return found
