"""Rows of machines, with their facts: read by name, changed in memory, written within the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, Connection, RowMapping, bindparam, insert, select, update

from jobsight_predictor.reliability.resource_vector import SuccessRecord
from jobsight_predictor.reliability.sessions import Presence, Session, Step
from jobsight_server.storage.engine import delete_beyond, insert_into, rows_of
from jobsight_server.systems.ranking.tables import machine_outcomes, machine_sessions, machines


class StoredFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of a machine; None is unknown. ``flops``: of one processor, by the agent's short benchmark."""

    cores: int | None = None
    processors: int | None = None
    memory_bytes: int | None = None
    flops: float | None = None


UNKNOWN = StoredFacts()
load_facts = msgspec.json.Decoder(StoredFacts).decode


def facts_of_node(cpus: int, memory_total_bytes: int | None, machine: str | None) -> StoredFacts:
    """Return the facts from the columns of ``nodes``; ``machine`` is None if the agent does not describe it."""
    own: dict[str, Any] = {} if machine is None else json.loads(machine)
    return StoredFacts(own.get("cores"), cpus, memory_total_bytes, own.get("benchmark_flops"))


def installation_of(machine: str | None) -> str | None:
    """Return the digest that a reinstallation changes."""
    found = None if machine is None else json.loads(machine).get("id")
    return found if isinstance(found, str) else None


Name = tuple[str, str]
"""Cluster and name of a machine."""

SESSIONS_KEPT = 500
_EARLIER_BOOTS = 20

_COLUMNS = tuple(column.name for column in machines.c if column.name != "id")
_MADE = {"presence", "facts", "earlier_boots", "since", *(field.name for field in fields(SuccessRecord))}
_PLAIN = tuple(name for name in _COLUMNS if name not in _MADE)  # stored as they are
_UPDATE = update(machines).where(machines.c.id == bindparam("number"))
_FORGET = delete_beyond(SESSIONS_KEPT, machine_sessions.c.id, machine_sessions.c.machine_id == bindparam("machine"))
_UNSEEN = Presence()
_NO_JOBS = SuccessRecord()
_read_presence = msgspec.json.Decoder(Presence).decode
_read_boots = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.json.Encoder().encode


class Stretch(NamedTuple):
    """A part of a session for the survival model to learn; ``now``: the time at which its age counts."""

    began: float
    since: float
    until: float
    ended: bool
    now: float


@dataclass(slots=True)
class MachineRow:
    """A row of ``machines``. ``shown``: a field that answers show has changed, not only the time of the last sign."""

    id: int | None
    cluster: str
    name: str
    presence: Presence = _UNSEEN
    facts: StoredFacts = UNKNOWN
    earlier_boots: list[str] = field(default_factory=list)
    boot_id: str | None = None
    sequence: int | None = None
    booted: float | None = None
    received_at: float | None = None
    busy_processors: int = 0
    record: SuccessRecord = _NO_JOBS
    sessions: int = 0
    events: float = 0.0
    seconds: float = 0.0
    weighted: float = 0.0
    learned_until: float | None = None
    sound: float = 0.0
    failed: float = 0.0
    touched: bool = False
    shown: bool = False
    ended: list[Session] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    """New rows of ``machine_outcomes``, without the machine."""

    def take(self, step: Step) -> None:
        """Take in a step of the machine's presence."""
        before = self.presence
        self.presence, self.touched = step.presence, True
        if step.ended is not None:
            self.ended.append(step.ended)
            self.sessions += 1
        if step.forget:
            self.record, self.stretches, self.learned_until = _NO_JOBS, [], None
            self.events = self.seconds = self.weighted = self.sound = self.failed = 0.0
        elif step.ended is not None:
            self._learn(step.ended.start_s, step.ended.end_s, step.ended.is_event)
        self.shown |= step.ended is not None or _shown(before) != _shown(step.presence)

    def learn_open(self, at_least_s: float) -> None:
        """Learn the open session as far as it was seen, if that is ``at_least_s`` more than before."""
        since, seen = self.presence.since_s, self.presence.seen_s
        if since is not None and seen is not None and seen - max(since, self.learned_until or since) >= at_least_s:
            self._learn(since, seen, ended=False)

    def learn_attempt(self, start: float, end: float, now: float, *, is_event: bool) -> None:
        """Learn an attempt on a machine without an agent as a session, which the machine or the job's own end ended.

        Simultaneous attempts are simultaneous sessions.
        """
        if self.boot_id is None:
            self.stretches.append(Stretch(start, start, max(start, end), is_event, max(end, now)))

    def begin_boot(self, boot_id: str, time: float) -> None:
        """Begin a boot that had no batch before."""
        if self.boot_id is not None:
            self.earlier_boots = [*self.earlier_boots, self.boot_id][-_EARLIER_BOOTS:]
        self.boot_id, self.booted, self.sequence = boot_id, time, None

    def _learn(self, began: float, until: float, ended: bool) -> None:
        # A clock that was set back may have moved the session before the learned part.
        since = began if self.learned_until is None else min(max(began, self.learned_until), until)
        self.stretches.append(Stretch(began, since, until, ended, until))
        self.learned_until = until


class Taken(NamedTuple):
    """Machines changed by the rows up to ``until``; ``more``: others are left."""

    machines: list[MachineRow]
    until: float
    more: bool


def last_of_some(connection: Connection, time: Column[float], since: float, until: float, at_once: int) -> float | None:
    """Return the ``time`` of the last of the ``at_once`` rows that follow ``since``; None if no more are left until
    ``until``."""
    following = select(time).where(time > since, time <= until).order_by(time).limit(1).offset(at_once - 1)
    return connection.scalar(following)


def read_machines(connection: Connection, names: Collection[Name]) -> dict[Name, MachineRow]:
    """Read the rows of these machines; create missing ones in memory."""
    found = {name: MachineRow(None, *name) for name in names}
    by_cluster: dict[str, list[str]] = {}
    for cluster, name in found:
        by_cluster.setdefault(cluster, []).append(name)
    for cluster, own in by_cluster.items():
        for row in rows_of(connection, select(machines).where(machines.c.cluster == cluster), machines.c.name, own):
            found[cluster, row.name] = machine_of_row(row._mapping)
    return found


def machine_of_row(row: RowMapping) -> MachineRow:
    """Convert a row of ``machines``."""
    record = SuccessRecord(**{field.name: row[field.name] for field in fields(SuccessRecord)})
    return MachineRow(
        row["id"],
        presence=_read_presence(row["presence"]),
        facts=load_facts(row["facts"]),
        earlier_boots=_read_boots(row["earlier_boots"]),
        record=record,
        **{name: row[name] for name in _PLAIN},
    )


def write_machines(connection: Connection, changed: Iterable[MachineRow]) -> bool:
    """Write changed rows, and the sessions that ended; return whether any answer changes."""
    rows = [machine for machine in changed if machine.touched or machine.id is None]
    shown = any(machine.shown or machine.id is None for machine in rows)
    older = [{"number": machine.id, **_values(machine)} for machine in rows if machine.id is not None]
    if older:
        connection.execute(_UPDATE, older)
    # In the order of names: new machines get the same numbers on every database, and numbers break ties.
    new = sorted(
        (machine for machine in rows if machine.id is None), key=lambda machine: (machine.cluster, machine.name)
    )
    if new:
        ids = connection.execute(
            insert(machines).returning(machines.c.id, sort_by_parameter_order=True), [_values(one) for one in new]
        ).scalars()
        for machine, number in zip(new, ids, strict=True):
            machine.id = number
    ended = [(machine.id, session) for machine in rows for session in machine.ended]
    if ended:
        values = [
            {"machine_id": number, "start": one.start_s, "end": one.end_s, "ending": one.ending}
            for number, one in ended
        ]
        connection.execute(insert(machine_sessions), values)
        connection.execute(_FORGET, [{"machine": number} for number in {number for number, _ in ended}])
    outcomes = [
        one | {"machine_id": machine.id, "cluster": machine.cluster} for machine in rows for one in machine.outcomes
    ]
    if outcomes:
        connection.execute(insert_into(connection, machine_outcomes).on_conflict_do_nothing(), outcomes)
    for machine in rows:
        machine.touched, machine.shown, machine.ended, machine.outcomes = False, False, [], []
    return shown


def _shown(presence: Presence) -> tuple[object, ...]:
    """Return the fields that answers show."""
    return presence.since_s, presence.owner, presence.boots, presence.clock_jumps


def _values(machine: MachineRow) -> dict[str, Any]:
    return {
        "presence": _encode(machine.presence).decode(),
        "facts": _encode(machine.facts).decode(),
        "earlier_boots": _encode(machine.earlier_boots).decode(),
        "since": machine.presence.since_s,
        **asdict(machine.record),
        **{name: getattr(machine, name) for name in _PLAIN},
    }
