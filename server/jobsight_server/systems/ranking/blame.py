"""Whom the bad end of a run follows: the machine that went away, each of its machines, or its user and application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from jobsight_predictor.reliability.resource_vector import JobEnd, blamed
from jobsight_server.storage.engine import fetch, fetch_by_keys
from jobsight_server.systems.ranking.rows import MachineRow, Name

# As TORQUE writes them: deleted by qdel (256 + SIGTERM), and over the requested time.
USERS_DOING = frozenset({271, -11})

# How long before and after the end of a run a session may end to be the reason for it.
_BEFORE_S, _AFTER_S = 900.0, 300.0
_COMPARED = 100

_ENDED = (
    "WITH asked(machine_id, since, until) AS (VALUES {asked}) SELECT asked.machine_id, asked.since FROM asked "
    'CROSS JOIN machine_sessions AS s WHERE s.machine_id = asked.machine_id AND s."end" >= asked.since '
    'AND s."end" <= asked.until'
)
_FAILED = "sum(CASE WHEN outcome IN ('failed', 'user-failed') THEN 1 ELSE 0 END), count(*)"
_ON_MACHINE = (
    f"SELECT {_FAILED} FROM (SELECT outcome FROM machine_outcomes WHERE machine_id = ? "
    'AND NOT (cluster = ? AND "user" = ? AND application = ?) ORDER BY "end" DESC LIMIT ?) AS newest'
)
_OF_GROUP = (
    f'SELECT {_FAILED} FROM (SELECT outcome FROM machine_outcomes WHERE cluster = ? AND "user" = ? '
    'AND application = ? AND machine_id <> ? ORDER BY "end" DESC LIMIT ?) AS newest'
)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run that ended on ``nodes``, each with its processors there; ``recorded_at``: when the log was read.

    ``failure``: what it ran out of, if the log says so.
    """

    cluster: str
    job_id: str
    start: float
    end: float
    user: str
    application: str
    nodes: Mapping[str, int]
    requeued: bool
    exit_status: int | None
    recorded_at: float
    failure: str | None = None

    @property
    def is_bad(self) -> bool:
        """Whether someone is to be blamed for its end; the end of a run without an exit status says nothing."""
        return self.requeued or (self.failure is None and self.exit_status not in (0, None, *USERS_DOING))


def went_away(
    connection: Connection, runs: list[JudgedRun], found: Mapping[Name, MachineRow]
) -> set[tuple[int, float]]:
    """(machine, end of a run) where the machine's session ended at about that time."""
    keys = {
        (machine.id, run.end - _BEFORE_S, run.end + _AFTER_S)
        for run in runs
        if run.is_bad
        for machine in (found[run.cluster, node] for node in run.nodes)
        if machine.id is not None
    }
    return {(number, since + _BEFORE_S) for number, since in fetch_by_keys(connection, _ENDED, sorted(keys))}


def ends_of(
    connection: Connection,
    run: JudgedRun,
    found: Mapping[Name, MachineRow],
    away: set[tuple[int, float]],
    may_wait: bool,
) -> dict[str, JobEnd] | None:
    """How the run left each of its machines that it counts for; None if it is too early to say."""
    if not run.is_bad:
        if run.exit_status is None:
            return {}
        return dict.fromkeys(run.nodes, "success" if run.exit_status == 0 else "user-failed")
    machines = {node: found[run.cluster, node] for node in run.nodes}
    gone = [node for node, one in machines.items() if any((one.id, end) in away for end in _same(run.end))]
    if gone:
        return dict.fromkeys(gone, "requeued" if run.requeued else "evicted")
    if run.requeued and len(machines) == 1:
        return dict.fromkeys(run.nodes, "requeued")
    if may_wait and any(_unseen_since(one, run.end) for one in machines.values()):
        return None
    if run.requeued:
        return dict.fromkeys(run.nodes, "requeued")
    return {node: _follows(connection, run, one) for node, one in machines.items()}


def _same(end: float) -> tuple[float, ...]:
    """The end of a run as it returns from the sum in ``went_away``."""
    return (end, end - _BEFORE_S + _BEFORE_S)


def _unseen_since(machine: MachineRow, time: float) -> bool:
    """Whether its agent is expected to send readings from after ``time``."""
    presence = machine.presence
    return machine.boot_id is not None and presence.since_s is not None and (presence.seen_s or 0.0) <= time


def _follows(connection: Connection, run: JudgedRun, machine: MachineRow) -> JobEnd:
    group = (run.cluster, run.user, run.application)
    number = -1 if machine.id is None else machine.id
    (on_machine,) = fetch(connection, _ON_MACHINE, (number, *group, _COMPARED))
    (of_group,) = fetch(connection, _OF_GROUP, (*group, number, _COMPARED))
    return blamed(on_machine[0] or 0, on_machine[1], of_group[0] or 0, of_group[1])
