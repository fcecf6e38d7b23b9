"""A round: brings the machines up to date with batches, owners, silence, job ends and running jobs.

Each step is one transaction that can be repeated: what was taken in is written together with how far that was.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine

from jobsight_server.systems.ranking.absence import end_silent, take_owner_reports
from jobsight_server.systems.ranking.busy import count_busy
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.learning import fade, learn
from jobsight_server.systems.ranking.outcomes import take_runs
from jobsight_server.systems.ranking.rows import MachineRow, write_machines
from jobsight_server.systems.ranking.sightings import take_batches
from jobsight_server.systems.ranking.state import ReliabilityState, lock_reliability, write_reliability

log = logging.getLogger(__name__)

# The least that is learned of a session that lasts, so that a machine that stays is known to stay.
_LEARN_S = 3600.0

Step = Callable[[Connection, ReliabilityState, int], tuple[bool, bool]]
"""A step changes the state and returns whether answers change by it, and whether it is to be repeated."""


def update_machines(
    engine: Engine, config: RankConfig, clock: Callable[[], float], stop: threading.Event | None = None
) -> None:
    """Runs one round. Interrupted, or run twice, it counts nothing twice."""

    def batches(connection: Connection, state: ReliabilityState, version: int) -> tuple[bool, bool]:
        taken = take_batches(connection, config, state, clock())
        state.batches_until = taken.until
        return _written(connection, state, taken.machines, version), taken.more

    def absent(connection: Connection, state: ReliabilityState, version: int) -> tuple[bool, bool]:
        now = clock()
        changed = _written(connection, state, take_owner_reports(connection, config, now), version)
        changed |= _written(connection, state, end_silent(connection, config, now), version)
        return changed, False

    def runs(connection: Connection, state: ReliabilityState, version: int) -> tuple[bool, bool]:
        taken = take_runs(connection, config, state, clock())
        state.jobs_until = taken.until
        return _written(connection, state, taken.machines, version), taken.more

    def fading(connection: Connection, state: ReliabilityState, version: int) -> tuple[bool, bool]:
        return fade(connection, state, clock(), version), False

    def busy(connection: Connection, _state: ReliabilityState, version: int) -> tuple[bool, bool]:
        return count_busy(connection, version), False

    for step in (fading, batches, absent, runs, busy):
        more = True
        while more and not (stop and stop.is_set()):
            more = _do(engine, step)


def _do(engine: Engine, step: Step) -> bool:
    with engine.begin() as connection:
        state = lock_reliability(connection)
        version = state.version + 1
        changed, more = step(connection, state, version)
        if changed:
            state.version = version
        write_reliability(connection, state)
    return more


def _written(connection: Connection, state: ReliabilityState, rows: Sequence[MachineRow], version: int) -> bool:
    for machine in rows:
        if machine.touched:
            machine.learn_open(_LEARN_S)
    changed = write_machines(connection, rows, version)
    return learn(connection, state, rows, version) or changed
