"""Outcomes of jobs on machines, from the accounting log: each run counts once on each of its machines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, insert, select

from jobsight_predictor.reliability.resource_vector import JobEnd, after_job, blamed
from jobsight_predictor.reliability.success import with_end
from jobsight_server.storage.engine import fetch_by_keys, keyed, pieces, rows_of
from jobsight_server.storage.schema import job_nodes, jobs
from jobsight_server.systems.ranking.learning import ReliabilityState
from jobsight_server.systems.ranking.rows import MachineRow, Name, Taken, last_of_some, read_machines
from jobsight_server.systems.ranking.tables import machine_outcomes, machine_sessions, outcomes_pending

# As TORQUE writes them: deleted by qdel (256 + SIGTERM), and over the requested time.
USERS_DOING = frozenset({271, -11})

# Time before and after the end of a run in which the end of a session may be its cause.
_BEFORE_S, _AFTER_S = 900.0, 300.0
_COMPARED = 100

_ENDS = select(machine_sessions.c.machine_id, machine_sessions.c.end)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run that ended on ``nodes``, each with its processors there; ``recorded_at``: time of reading the log.

    ``failure``: the resource that it ran out of, if the log has it.
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
        """Return whether machine or user is at fault: not if cancelled, out of a resource, or without exit status."""
        return self.requeued or (self.failure is None and self.exit_status not in (0, None, *USERS_DOING))


def went_away(
    connection: Connection, runs: list[JudgedRun], found: Mapping[Name, MachineRow]
) -> set[tuple[int, float]]:
    """Return (machine, end of a run) where the machine's session ended at about that time."""
    keys = {
        (machine.id, run.end)
        for run in runs
        if run.is_bad
        for machine in (found[run.cluster, node] for node in run.nodes)
        if machine.id is not None
    }
    near = _ENDS.where(machine_sessions.c.end >= min((at for _, at in keys), default=0.0) - _BEFORE_S)
    ends: dict[int, list[float]] = {}
    for number, end in rows_of(connection, near, machine_sessions.c.machine_id, sorted({number for number, _ in keys})):
        ends.setdefault(number, []).append(end)
    return {
        (number, at)
        for number, at in keys
        if any(at - _BEFORE_S <= end <= at + _AFTER_S for end in ends.get(number, ()))
    }


def ends_of(
    connection: Connection,
    run: JudgedRun,
    found: Mapping[Name, MachineRow],
    away: set[tuple[int, float]],
    may_wait: bool,
) -> dict[str, JobEnd] | None:
    """Return the outcome on each machine that the run counts for; None if it is too early to decide."""
    if not run.is_bad:
        if run.exit_status is None:
            return {}
        return dict.fromkeys(run.nodes, "success" if run.exit_status == 0 else "user-failed")
    machines = {node: found[run.cluster, node] for node in run.nodes}
    gone = [node for node, one in machines.items() if (one.id, run.end) in away]
    if gone:
        return dict.fromkeys(gone, "requeued" if run.requeued else "evicted")
    if run.requeued and len(machines) == 1:
        return dict.fromkeys(run.nodes, "requeued")
    # Those whose agent may still send readings after the end.
    silent = [one.presence for one in machines.values() if one.boot_id is not None and one.presence.since_s is not None]
    if may_wait and any((presence.seen_s or 0.0) <= run.end for presence in silent):
        return None
    if run.requeued:
        return dict.fromkeys(run.nodes, "requeued")
    return {node: _follows(connection, run, one) for node, one in machines.items()}


def _follows(connection: Connection, run: JudgedRun, machine: MachineRow) -> JobEnd:
    of = machine_outcomes.c
    of_group = and_(of.cluster == run.cluster, of.user == run.user, of.application == run.application)
    on_machine = of.machine_id == (-1 if machine.id is None else machine.id)
    return blamed(*_failed(connection, on_machine, ~of_group), *_failed(connection, of_group, ~on_machine))


def _failed(connection: Connection, *which: ColumnElement[bool]) -> tuple[int, int]:
    """Return how many of the newest of these outcomes are failures, and of how many."""
    newest = select(machine_outcomes.c.outcome).where(*which).order_by(machine_outcomes.c.end.desc()).limit(_COMPARED)
    found = connection.scalars(newest).all()
    return sum(one in ("failed", "user-failed") for one in found), len(found)


# A run may be committed after one recorded later: rounds look back this long for it.
_OVERLAP_S = 120.0
_AT_ONCE = 2000
# Time that a bad end waits for a sign of all of its machines.
_UNDECIDED_S = 3600.0

_COPIED = ("cluster", "job_id", "start", "end", "user", "exit_status", "recorded_at", "failure")
_OF_RUN = [jobs.c[name] for name in ("id", "state", "application", *_COPIED)]
_ENDED = jobs.c.state.in_(("ended", "requeued")) & jobs.c.end.is_not(None)
_RECORDED = select(*_OF_RUN).where(
    jobs.c.recorded_at > bindparam("since"), jobs.c.recorded_at <= bindparam("until"), _ENDED
)
_COUNTED = keyed(machine_outcomes, ("machine_id", "job_id"), "start")


def take_runs(connection: Connection, state: ReliabilityState, now: float) -> Taken:
    """Take in the runs whose ends were recorded since ``state.jobs_until``, and those that had to wait.

    It changes no row, and adds machines without an agent.
    """
    since = min(state.jobs_until, now)  # the server's clock may have been set back
    top = last_of_some(connection, jobs.c.recorded_at, since, now, _AT_ONCE)
    until = now if top is None else top
    waiting = set(connection.scalars(select(outcomes_pending.c.run_id)))
    rows = {row.id: row for row in connection.execute(_RECORDED, {"since": since - _OVERLAP_S, "until": until})}
    ended = select(*_OF_RUN).where(_ENDED)
    rows |= {row.id: row for row in rows_of(connection, ended, jobs.c.id, sorted(waiting - rows.keys()))}
    runs = _runs(connection, rows)
    names = dict.fromkeys((run.cluster, node) for run in runs.values() for node in run.nodes)
    found = read_machines(connection, names)
    counted = counted_before(connection, runs.values(), found)
    away = went_away(connection, list(runs.values()), found)
    undecided = []
    for number, run in sorted(runs.items(), key=lambda item: (item[1].end, item[0])):
        left = [node for node in run.nodes if (run.cluster, node, run.job_id, run.start) not in counted]
        if not left:
            continue
        ends = ends_of(connection, run, found, away, may_wait=now - run.recorded_at < _UNDECIDED_S)
        if ends is None:
            undecided.append(number)
            continue
        for node in left:
            if (end := ends.get(node)) is not None:
                count_end(found[run.cluster, node], run, end, now)
    _keep_waiting(connection, waiting, undecided)
    return Taken([one for one in found.values() if one.touched], until, top is not None)


def count_end(machine: MachineRow, run: JudgedRun, end: JobEnd, now: float) -> None:
    """Count the end of a run on one of its machines."""
    machine.record = after_job(machine.record, end)
    machine.sound, machine.failed = with_end(machine.sound, machine.failed, end, max(now - run.end, 0.0))
    machine.learn_attempt(run.start, run.end, now, is_event=end in ("evicted", "requeued", "checkpointed"))
    about = {"job_id": run.job_id, "start": run.start, "end": run.end}
    machine.outcomes.append(about | {"outcome": end, "user": run.user, "application": run.application})
    machine.touched = machine.shown = True


def counted_before(
    connection: Connection, runs: Iterable[JudgedRun], found: dict[Name, MachineRow]
) -> set[tuple[str, str, str, float]]:
    """Return cluster, node, job and start of runs counted before."""
    names = {machine.id: name for name, machine in found.items() if machine.id is not None}
    keys = {
        (number, run.job_id)
        for run in runs
        for node in run.nodes
        if (number := found[run.cluster, node].id) is not None
    }
    rows = fetch_by_keys(connection, _COUNTED, sorted(keys))
    return {(*names[number], job_id, start) for number, job_id, start in rows}


def _runs(connection: Connection, rows: dict[int, Any]) -> dict[int, JudgedRun]:
    places: dict[int, dict[str, int]] = {}
    for row in rows_of(connection, select(job_nodes), job_nodes.c.run_id, list(rows)):
        places.setdefault(row.run_id, {})[row.node] = row.processors
    return {
        number: JudgedRun(
            **{name: getattr(row, name) for name in _COPIED},
            application=row.application or "",
            nodes=places[number],
            requeued=row.state == "requeued",
        )
        for number, row in rows.items()
        if number in places
    }


def _keep_waiting(connection: Connection, before: set[int], now_waiting: Collection[int]) -> None:
    for some in pieces(sorted(before - set(now_waiting))):
        connection.execute(delete(outcomes_pending).where(outcomes_pending.c.run_id.in_(some)))
    new = [{"run_id": number} for number in now_waiting if number not in before]
    if new:
        connection.execute(insert(outcomes_pending), new)
