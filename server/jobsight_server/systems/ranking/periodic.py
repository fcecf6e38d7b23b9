"""Background work of ranking: brings the machines up to date with batches, owners, silence, job ends and running jobs.

Each step is one transaction that can be repeated: it writes its results together with its progress.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.systems.periodic import BackgroundWork
from jobsight_server.systems.ranking.learning import ReliabilityState, fade, learn, lock_reliability, write_reliability
from jobsight_server.systems.ranking.outcomes import take_runs
from jobsight_server.systems.ranking.rows import MachineRow, write_machines
from jobsight_server.systems.ranking.settings import RankingSettings
from jobsight_server.systems.ranking.sightings import end_silent, take_batches, take_owner_reports

_HELD = (
    "SELECT machines.id, sum(job_nodes.processors) FROM jobs JOIN job_nodes ON job_nodes.run_id = jobs.id "
    "JOIN machines ON machines.cluster = jobs.cluster AND machines.name = job_nodes.node "
    "WHERE jobs.state = 'running' AND (machines.booted IS NULL OR jobs.start >= machines.booted) GROUP BY machines.id"
)


def count_busy(connection: Connection) -> bool:
    """Write the processors in use on each machine; return whether any number changed.

    A run that started before the machine's present boot has ended, even if its end was never logged.
    """
    held: dict[int, int] = dict(fetch(connection, _HELD, ()))
    rows = fetch(connection, "SELECT id, busy_processors FROM machines", ())
    changes = [(held.get(number, 0), number) for number, busy in rows if held.get(number, 0) != busy]
    write_many(connection, "UPDATE machines SET busy_processors = ? WHERE id = ?", changes)
    return bool(changes)


log = logging.getLogger(__name__)

# Learn from an open session in steps of at least this, so that a machine that stays counts as such.
_LEARN_S = 3600.0

Step = Callable[[Connection, ReliabilityState], tuple[bool, bool]]
"""A step changes the state; it returns whether answers change, and whether to repeat it."""


def update_machines(
    engine: Engine, settings: SessionSettings, clock: Callable[[], float], stop: threading.Event | None = None
) -> None:
    """Run one round. Interrupted, or run twice, it counts nothing twice."""

    def batches(connection: Connection, state: ReliabilityState) -> tuple[bool, bool]:
        taken = take_batches(connection, settings, state, clock())
        state.batches_until = taken.until
        return _written(connection, state, taken.machines), taken.more

    def absent(connection: Connection, state: ReliabilityState) -> tuple[bool, bool]:
        now = clock()
        changed = _written(connection, state, take_owner_reports(connection, settings, now))
        changed |= _written(connection, state, end_silent(connection, settings, now))
        return changed, False

    def runs(connection: Connection, state: ReliabilityState) -> tuple[bool, bool]:
        taken = take_runs(connection, state, clock())
        state.jobs_until = taken.until
        return _written(connection, state, taken.machines), taken.more

    def fading(connection: Connection, state: ReliabilityState) -> tuple[bool, bool]:
        return fade(connection, state, clock()), False

    def busy(connection: Connection, _state: ReliabilityState) -> tuple[bool, bool]:
        return count_busy(connection), False

    for step in (fading, batches, absent, runs, busy):
        more = True
        while more and not (stop and stop.is_set()):
            more = _do(engine, step)


def _do(engine: Engine, step: Step) -> bool:
    with engine.begin() as connection:
        state = lock_reliability(connection)
        changed, more = step(connection, state)
        state.version += changed
        write_reliability(connection, state)
    return more


def _written(connection: Connection, state: ReliabilityState, rows: Sequence[MachineRow]) -> bool:
    for machine in rows:
        if machine.touched:
            machine.learn_open(_LEARN_S)
    learn(connection, state, rows)
    return write_machines(connection, rows)


def schedule(work: BackgroundWork) -> None:
    ranking = work.settings.section(RankingSettings)
    settings = SessionSettings(silence_s=ranking.silence_s)
    work.every(ranking.interval_s, "machines", update_machines, work.engine, settings, work.clock, work.stop)
