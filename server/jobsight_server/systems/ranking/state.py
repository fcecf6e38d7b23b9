"""How far the machines are up to date, and the version of what questions read; one row."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select, update

from jobsight_server.storage.engine import lock_until_commit
from jobsight_server.systems.ranking.tables import reliability_state

_ROW = 1


@dataclass(slots=True)
class ReliabilityState:
    """The row of ``reliability_state``. Changes of this round carry the version ``version + 1``."""

    version: int = 0
    batches_until: float = 0.0
    jobs_until: float = 0.0
    hazard: str = ""
    faded_at: float = 0.0


def lock_reliability(connection: Connection) -> ReliabilityState:
    """The state, which no one else changes until the transaction ends."""
    lock_until_commit(connection, "reliability")
    return read_reliability(connection)


def read_reliability(connection: Connection) -> ReliabilityState:
    """The state; that of an empty site if there is none yet."""
    row = connection.execute(select(reliability_state)).one_or_none()
    if row is None:
        return ReliabilityState()
    values = dict(row._mapping)
    del values["id"]
    return ReliabilityState(**values)


def write_reliability(connection: Connection, state: ReliabilityState) -> None:
    """Writes the row; the lock must be held."""
    values = asdict(state)
    if not connection.execute(update(reliability_state).values(values)).rowcount:
        connection.execute(insert(reliability_state).values(id=_ROW, **values))
