"""Background work of ranking: brings the machines up to date with batches, owners, silence, job ends and running jobs.

Each step is one transaction that can be repeated: it writes its results together with its progress.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, Engine, and_, func, select

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.accounting.last_read import is_running
from jobsight_server.ground.periodic import BackgroundWork
from jobsight_server.queries.node_states import Machines
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import updating, write_many
from jobsight_server.storage.schema import job_nodes, jobs
from jobsight_server.systems.ranking.learning import ReliabilityState, fade, learn, lock_reliability, write_reliability
from jobsight_server.systems.ranking.outcomes import take_runs
from jobsight_server.systems.ranking.rows import MachineRow, write_machines
from jobsight_server.systems.ranking.settings import RankingSettings
from jobsight_server.systems.ranking.sightings import end_silent, take_batches, take_owner_reports
from jobsight_server.systems.ranking.tables import machines


def count_busy(connection: Connection, now: float) -> bool:
    """Write the processors in use on each machine; return whether any number changed.

    A run that started before the machine's present boot has ended, even if its end was never logged.
    """
    of_node = and_(machines.c.cluster == jobs.c.cluster, machines.c.name == job_nodes.c.node)
    held = dict(
        connection.execute(
            select(machines.c.id, func.sum(job_nodes.c.processors))
            .select_from(jobs.join(job_nodes, job_nodes.c.run_id == jobs.c.id).join(machines, of_node))
            .where(is_running(now), machines.c.booted.is_(None) | (jobs.c.start >= machines.c.booted))
            .group_by(machines.c.id)
        ).all()
    )
    rows = connection.execute(select(machines.c.id, machines.c.busy_processors))
    changes = [(held.get(number, 0), number) for number, busy in rows if held.get(number, 0) != busy]
    write_many(connection, updating(machines, "busy_processors"), changes)
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
        return count_busy(connection, clock()), False

    for step in (fading, batches, absent, runs, busy):
        more = True
        while more and not (stop and stop.is_set()):
            more = _do(engine, step)


def _do(engine: Engine, step: Step) -> bool:
    with engine.begin() as connection:
        state = lock_reliability(connection)
        before = replace(state)
        changed, more = step(connection, state)
        state.version += changed
        if state != before:
            write_reliability(connection, state)
    return more


def _written(connection: Connection, state: ReliabilityState, rows: Sequence[MachineRow]) -> bool:
    for machine in rows:
        if machine.touched:
            machine.learn_open(_LEARN_S)
    learn(connection, state, rows)
    return write_machines(connection, rows)


def schedule(
    work: BackgroundWork, engine: Engine, settings: Settings, clock: Callable[[], float], machines: Machines
) -> None:
    own = settings.section(RankingSettings)
    sessions = SessionSettings(silence_s=own.silence_s)
    work.every(own.interval_s, "machines", update_machines, engine, sessions, clock, work.stop)
