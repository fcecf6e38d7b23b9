"""Progress of the rounds, and the survival model: each machine's part in its row, the shared part in one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import msgspec
import numpy as np
from sqlalchemy import Connection, bindparam, insert, or_, select, update

from jobsight_predictor.reliability.fading import faded
from jobsight_predictor.reliability.survival import Survival
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.storage.engine import lock_until_commit
from jobsight_server.systems.ranking.rows import MachineRow
from jobsight_server.systems.ranking.tables import machines, reliability_state


@dataclass(slots=True)
class ReliabilityState:
    """The row of ``reliability_state``; ``version`` counts the changes of answers."""

    version: int = 0
    batches_until: float = 0.0
    jobs_until: float = 0.0
    hazard: str = ""
    faded_at: float = 0.0


def lock_reliability(connection: Connection) -> ReliabilityState:
    """Read the state, locked until the transaction ends."""
    lock_until_commit(connection, "reliability")
    return read_reliability(connection)


def read_reliability(connection: Connection) -> ReliabilityState:
    """Read the state; that of an empty site if there is none yet."""
    row = connection.execute(select(reliability_state)).one_or_none()
    if row is None:
        return ReliabilityState()
    values = dict(row._mapping)
    del values["id"]
    return ReliabilityState(**values)


def write_reliability(connection: Connection, state: ReliabilityState) -> None:
    """Write the row; the caller holds the lock."""
    values = asdict(state)
    if not connection.execute(update(reliability_state).values(values)).rowcount:
        connection.execute(insert(reliability_state).values(id=1, **values))


_LEARNED = select(machines.c.id, machines.c.events, machines.c.seconds, machines.c.weighted).order_by(machines.c.id)
_FADING = [machines.c[name] for name in ("events", "seconds", "weighted", "sound", "failed")]
_FADE = (
    update(machines)
    .values({column: column * bindparam("factor") for column in _FADING})
    .where(or_(*(column > 0 for column in _FADING)))
)


class StoredAges(msgspec.Struct):
    """The part of the survival model that all machines share."""

    age_events: list[float]
    age_weighted: list[float]


def learn(connection: Connection, state: ReliabilityState, rows: Sequence[MachineRow]) -> None:
    """Teach the survival model the stretches of these machines; change them and ``state``, and write nothing."""
    if not any(machine.stretches for machine in rows):
        return
    mine = {machine.id for machine in rows}
    known = [one for number, *one in connection.execute(_LEARNED) if number not in mine]
    first = len(known)
    known += [[machine.events, machine.seconds, machine.weighted] for machine in rows]
    survival = survival_of(state.hazard, len(known))
    survival.events, survival.seconds, survival.weighted = np.array(known, dtype=np.float64).T.copy()
    stretches = [(at, *one) for at, machine in enumerate(rows, first) for one in machine.stretches]
    number, began, since, until, ended, now = (np.array(column) for column in zip(*stretches, strict=True))
    survival.learn(number, began, since, until, ended, now)
    stored = StoredAges(survival.age_events.tolist(), survival.age_weighted.tolist())
    state.hazard = msgspec.json.encode(stored).decode()
    for at, machine in enumerate(rows, first):
        if machine.stretches:
            machine.events, machine.seconds = float(survival.events[at]), float(survival.seconds[at])
            machine.weighted, machine.stretches = float(survival.weighted[at]), []
            machine.touched = machine.shown = True


def fade(connection: Connection, state: ReliabilityState, now: float) -> bool:
    """Reduce the weight of past observations once a day; return whether it did. Changes ``state``."""
    passed, state.faded_at = now - state.faded_at, state.faded_at or now
    if state.faded_at == now or passed < DAY_S:
        return False
    state.faded_at, factor = now, faded(passed)
    connection.execute(_FADE, {"factor": factor})
    if state.hazard:
        shared = msgspec.json.decode(state.hazard, type=StoredAges)
        faded_ages = StoredAges(*([factor * one for one in sums] for sums in msgspec.structs.astuple(shared)))
        state.hazard = msgspec.json.encode(faded_ages).decode()
    return True


def survival_of(hazard: str, machines: int) -> Survival:
    """Return the model of ``machines`` machines with the shared part, without data on single machines."""
    survival = Survival(machines)
    if hazard:
        stored = msgspec.json.decode(hazard, type=StoredAges)
        survival.age_events[:], survival.age_weighted[:] = stored.age_events, stored.age_weighted
    return survival
