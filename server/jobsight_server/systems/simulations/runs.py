"""Runs of simulations in the database: queued, running, then done, failed or stopped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from jobsight_server.errors import UserError
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.systems.simulations.parameters import SimulationParameters
from jobsight_server.systems.simulations.tables import simulation_files, simulation_traces, simulations
from jobsight_server.systems.simulations.traces import KeptTrace

UNDER_WAY = ("queued", "running")
STOPPED = "stopped from the page"
SERVER_STOPPED = "the server was stopped while it ran"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that is about to be executed; ``trace`` is gzip."""

    id: int
    parameters: SimulationParameters
    name: str
    trace: bytes


def add_run(
    connection: Connection, now: float, parameters: SimulationParameters, trace: KeptTrace | str, kept: int
) -> int:
    """Queues a run and returns its id; of the ended ones beyond ``kept`` in all, the oldest are deleted and counted.

    ``trace`` is new, or the digest of a stored one.

    Raises:
        UserError: ``kept`` runs are waiting or running already.
    """
    waiting = connection.scalar(select(func.count()).where(simulations.c.state.in_(UNDER_WAY))) or 0
    if waiting >= kept:
        raise UserError(
            f"{waiting} simulations are waiting or running, and no more are kept: wait for one, or stop one"
        )
    if isinstance(trace, str):
        digest = trace
    else:
        digest = trace.digest
        known = select(simulation_traces.c.digest).where(simulation_traces.c.digest == digest)
        if connection.scalar(known) is None:
            row = {"digest": digest, "name": trace.name, "content": trace.content}
            connection.execute(insert(simulation_traces).values(row))
    values: dict[str, Any] = {"created": now, "state": "queued", "trace": digest, "progress": 0.0}
    row = values | {"parameters": json.dumps(asdict(parameters))}
    run_id: int = connection.execute(insert(simulations).values(row).returning(simulations.c.id)).scalar_one()
    _forget(connection, kept)
    return run_id


def claim(engine: Engine, now: float) -> Claimed | None:
    """Takes the run queued first and marks it as running; None if there is none."""
    with engine.connect().execution_options(reading=True) as connection:
        if connection.scalar(select(func.min(simulations.c.id)).where(simulations.c.state == "queued")) is None:
            return None
    with engine.begin() as connection:
        first = select(func.min(simulations.c.id)).where(simulations.c.state == "queued").scalar_subquery()
        taken = update(simulations).where(simulations.c.id == first, simulations.c.state == "queued")
        run_id = connection.scalar(taken.values(state="running", started=now).returning(simulations.c.id))
        if run_id is None:  # stopped in between
            return None
        query = select(simulations.c.parameters, simulation_traces.c.name, simulation_traces.c.content)
        row = connection.execute(query.join(simulation_traces).where(simulations.c.id == run_id)).one()
    return Claimed(run_id, SimulationParameters(**json.loads(row.parameters)), row.name, row.content)


def still_wanted(engine: Engine, run_id: int) -> bool:
    """Whether the run has not been stopped in the meantime."""
    with engine.connect().execution_options(reading=True) as connection:
        return connection.scalar(select(simulations.c.state).where(simulations.c.id == run_id)) == "running"


def set_progress(engine: Engine, run_id: int, progress: float) -> None:
    """Stores the share of its jobs that have ended."""
    with engine.begin() as connection:
        running = (simulations.c.id == run_id, simulations.c.state == "running")
        connection.execute(update(simulations).where(*running).values(progress=progress))


def finish(
    engine: Engine,
    run_id: int,
    now: float,
    state: str,
    error: str | None = None,
    figures: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Ends a running run, unless it was stopped in the meantime; ``files`` are stored compressed."""
    with engine.begin() as connection:
        running = (simulations.c.id == run_id, simulations.c.state == "running")
        values: dict[str, Any] = {"state": state, "ended": now, "error": error}
        if figures is not None:
            values |= {"figures": json.dumps(figures), "progress": 1.0}
        if connection.execute(update(simulations).where(*running).values(values)).rowcount and files:
            rows = [{"run_id": run_id, "name": n, "content": gzip.compress(c)} for n, c in files.items()]
            connection.execute(insert(simulation_files), rows)


def stop_run(connection: Connection, run_id: int, now: float) -> bool:
    """Stops a queued or running run; False if it is neither."""
    under_way = (simulations.c.id == run_id, simulations.c.state.in_(UNDER_WAY))
    values = {"state": "stopped", "ended": now, "error": STOPPED}
    return connection.execute(update(simulations).where(*under_way).values(values)).rowcount == 1


def stop_interrupted(engine: Engine, now: float) -> None:
    """For the start of the background role, which alone executes runs: no run marked as running really is."""
    with engine.begin() as connection:
        running = update(simulations).where(simulations.c.state == "running")
        connection.execute(running.values(state="stopped", ended=now, error=SERVER_STOPPED))


def _forget(connection: Connection, kept: int) -> None:
    count = connection.scalar(select(func.count()).select_from(simulations)) or 0
    ended = select(simulations.c.id).where(simulations.c.state.not_in(UNDER_WAY)).order_by(simulations.c.id)
    oldest = list(connection.scalars(ended.limit(max(count - kept, 0))))
    connection.execute(delete(simulations).where(simulations.c.id.in_(oldest)))
    used = select(simulations.c.trace)
    connection.execute(delete(simulation_traces).where(simulation_traces.c.digest.not_in(used)))
    add_event_counts(connection, {("simulations_deleted", "more than are kept"): len(oldest)})
