"""How jobs left their machines, from the accounting log: each run counts once on each of its machines."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from jobsight_predictor.reliability.resource_vector import JobEnd, after_job, new_record
from jobsight_predictor.reliability.success import with_end
from jobsight_server.facts import application
from jobsight_server.storage.engine import fetch, fetch_by_keys
from jobsight_server.storage.schema import job_nodes, jobs
from jobsight_server.systems.ranking.blame import JudgedRun, ends_of, went_away
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.rows import MachineRow, Name, NewOutcome, read_machines
from jobsight_server.systems.ranking.state import ReliabilityState
from jobsight_server.systems.ranking.tables import outcomes_pending

# Runs that were being written when others, recorded later, had been: they are looked for this long.
_OVERLAP_S = 120.0
_AT_ONCE = 2000
_KEYS_AT_ONCE = 500
# How long a bad end waits for all of its machines to be seen again.
_UNDECIDED_S = 3600.0

_TOP = "SELECT recorded_at FROM jobs WHERE recorded_at > ? AND recorded_at <= ? ORDER BY recorded_at LIMIT 1 OFFSET ?"
_OF_RUN = (
    *(jobs.c[name] for name in ("id", "cluster", "job_id", "start", "end", "state", "user", "name")),
    *(jobs.c[name] for name in ("exit_status", "recorded_at", "failure")),
)
_ENDED = jobs.c.state.in_(("ended", "requeued")) & jobs.c.end.is_not(None)
_RECORDED = select(*_OF_RUN).where(
    jobs.c.recorded_at > bindparam("since"), jobs.c.recorded_at <= bindparam("until"), _ENDED
)
_NAMED = select(*_OF_RUN).where(jobs.c.id.in_(bindparam("ids", expanding=True)), _ENDED)
_PLACES = select(job_nodes).where(job_nodes.c.run_id.in_(bindparam("ids", expanding=True)))
_COUNTED = (
    "WITH asked(machine_id, job_id) AS (VALUES {asked}) SELECT o.machine_id, o.job_id, o.start FROM asked "
    "CROSS JOIN machine_outcomes AS o WHERE o.machine_id = asked.machine_id AND o.job_id = asked.job_id"
)


@dataclass(frozen=True, slots=True)
class TakenRuns:
    """The machines of new job ends, up to those recorded at ``until``; ``more`` are left."""

    machines: list[MachineRow]
    until: float
    more: bool


def take_runs(connection: Connection, config: RankConfig, state: ReliabilityState, now: float) -> TakenRuns:
    """Takes in the runs whose ends were recorded since ``state.jobs_until``, and those that had to wait.

    Changes no machine's row; machines on which no agent runs become known by this.
    """
    since = min(state.jobs_until, now)  # the server's clock may have been set back
    top = fetch(connection, _TOP, (since, now, _AT_ONCE - 1))
    until = top[0][0] if top else now
    waiting = set(connection.scalars(select(outcomes_pending.c.run_id)))
    rows = {row.id: row for row in connection.execute(_RECORDED, {"since": since - _OVERLAP_S, "until": until})}
    for some in _parts(sorted(waiting - rows.keys())):
        rows |= {row.id: row for row in connection.execute(_NAMED, {"ids": some})}
    runs = _runs(connection, rows)
    names = dict.fromkeys((run.cluster, node) for run in runs.values() for node in run.nodes)
    found = read_machines(connection, names, new_record(config.vector))
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
                count_end(found[run.cluster, node], run, end, config, now)
    _keep_waiting(connection, waiting, undecided, now)
    return TakenRuns([one for one in found.values() if one.touched], until, bool(top))


def count_end(machine: MachineRow, run: JudgedRun, end: JobEnd, config: RankConfig, now: float) -> None:
    """Counts the end of a run on one of its machines."""
    work_h = run.nodes[machine.name] * max(run.end - run.start, 0.0) / 3600.0
    machine.record = after_job(machine.record, end, config.vector, work_h)
    machine.sound, machine.failed = with_end(machine.sound, machine.failed, end, max(now - run.end, 0.0))
    machine.learn_attempt(run.start, run.end, now, is_event=end in ("evicted", "requeued", "checkpointed"))
    machine.outcomes.append(NewOutcome(run.job_id, run.start, run.end, end, run.user, run.application))
    machine.touched = machine.shown = True


def counted_before(
    connection: Connection, runs: Iterable[JudgedRun], found: dict[Name, MachineRow]
) -> set[tuple[str, str, str, float]]:
    """Cluster, node, job and start of what was counted before."""
    names = {machine.id: name for name, machine in found.items() if machine.id is not None}
    keys = {
        (number, run.job_id)
        for run in runs
        for node in run.nodes
        if (number := found[run.cluster, node].id) is not None
    }
    return {(*names[row[0]], row[1], row[2]) for row in fetch_by_keys(connection, _COUNTED, sorted(keys))}


def _runs(connection: Connection, rows: dict[int, Any]) -> dict[int, JudgedRun]:
    places: dict[int, dict[str, int]] = {}
    for some in _parts(list(rows)):
        for row in connection.execute(_PLACES, {"ids": some}):
            places.setdefault(row.run_id, {})[row.node] = row.processors
    return {
        number: JudgedRun(
            row.cluster,
            row.job_id,
            row.start,
            row.end,
            row.user,
            (row.name and application(row.name)) or "",
            places[number],
            row.state == "requeued",
            row.exit_status,
            row.recorded_at,
            row.failure,
        )
        for number, row in rows.items()
        if number in places
    }


def _keep_waiting(connection: Connection, before: set[int], now_waiting: Collection[int], now: float) -> None:
    for some in _parts(sorted(before - set(now_waiting))):
        connection.execute(delete(outcomes_pending).where(outcomes_pending.c.run_id.in_(some)))
    new = [{"run_id": number, "since": now} for number in now_waiting if number not in before]
    if new:
        connection.execute(insert(outcomes_pending), new)


def _parts(numbers: list[int]) -> Iterable[list[int]]:
    return (numbers[begin : begin + _KEYS_AT_ONCE] for begin in range(0, len(numbers), _KEYS_AT_ONCE))
