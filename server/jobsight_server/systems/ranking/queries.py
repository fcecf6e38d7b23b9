"""Machines in order of their rank for a job, and why: their sessions, boots and how jobs ended on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from sqlalchemy import Connection, bindparam, select

from jobsight_predictor.reliability.sessions import Presence
from jobsight_server.queries.machines import MachineSession
from jobsight_server.record import Record, Share
from jobsight_server.systems.ranking.ask import MachineRanks, RankQuestion, rank_machines
from jobsight_server.systems.ranking.board import MachineColumns
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.settings import RankMethod
from jobsight_server.systems.ranking.tables import machine_sessions, machines

MachineState = Literal["free", "busy", "owner", "absent", "unknown"]
"""``unknown``: it has no agent."""

_AT_ONCE = 500
_read_presence = msgspec.json.Decoder(Presence).decode


class RankedMachine(Record):
    """A machine, and why it has its rank.

    ``score`` is what it is ranked by, ``low`` and ``high`` its range. ``survival`` is the chance that it stays for the
    run time, ``sound`` that it does not fail the job; ``availability``, ``success`` and ``capacity`` are the terms RA,
    JS and CA of its resource vector. If it is not ``known``, it has no history: its score is at most the mean of the
    others.
    """

    rank: int
    cluster: str
    name: str
    state: MachineState
    score: float | None
    low: float | None
    high: float | None
    known: bool
    survival: Share
    sound: Share
    availability: Share
    success: Share
    capacity: float
    since: float | None
    age_s: float | None
    sessions: int
    boots: int
    successes: int
    evictions: int
    failures: int
    user_failures: int
    clock_jumps: int
    installations: int
    busy_processors: int
    processors: int | None
    memory_bytes: int | None
    flops: float | None
    history: list[MachineSession]
    version: int


class NotRanked(Record):
    """Machines that have no rank: those that do not meet the requirements, and of the others those busy or absent."""

    unfit: int
    absent: int
    busy: int


class MachineRanking(Record):
    """Machines for a job of this run time, best first; ``ranked`` counts those beyond the limit, too."""

    now: float
    method: RankMethod
    run_time_s: float
    run_time_from: Literal["given", "predicted"]
    weights: tuple[float, float, float]
    total: int
    ranked: int
    left_out: NotRanked
    history_since: float | None
    machines: list[RankedMachine]


def machine_ranking(
    connection: Connection,
    columns: MachineColumns,
    config: RankConfig,
    question: RankQuestion,
    now: float,
    *,
    predicted: bool = False,
    name: str | None = None,
    limit: int = 100,
    history_s: float | None = None,
) -> MachineRanking:
    """The first ``limit`` machines, or those of ``name`` with their ranks; ``history_s``: with sessions so far back."""
    ranks = rank_machines(columns, config, question, now)
    places = [
        (rank, int(number))
        for rank, number in enumerate(ranks.order if name is not None else ranks.order[:limit], 1)
        if name is None or columns.names[number][1] == name
    ]
    since = None if history_s is None else now - history_s
    weights = np.array(config.vector.weights) / sum(config.vector.weights)
    return MachineRanking(
        now,
        question.method,
        question.run_time_s,
        "predicted" if predicted else "given",
        (float(weights[0]), float(weights[1]), float(weights[2])),
        len(columns),
        len(ranks.order),
        NotRanked(
            int((~ranks.meets).sum()),
            int((ranks.meets & ~ranks.present).sum()),
            int((ranks.meets & ranks.present & ~ranks.free).sum()),
        ),
        since,
        _rows(connection, ranks, places[:limit], now, since),
    )


def _rows(
    connection: Connection, ranks: MachineRanks, places: Sequence[tuple[int, int]], now: float, since: float | None
) -> list[RankedMachine]:
    columns, vectors = ranks.columns, ranks.vectors
    ids = [int(columns.ids[number]) for _, number in places]
    stored: dict[int, Any] = {}
    query = select(machines).where(machines.c.id.in_(bindparam("ids", expanding=True)))
    for begin in range(0, len(ids), _AT_ONCE):
        stored |= {row.id: row for row in connection.execute(query, {"ids": ids[begin : begin + _AT_ONCE]})}
    history = {} if since is None else _history(connection, ids, since)
    found = []
    for rank, number in places:
        row, facts = stored[int(columns.ids[number])], columns.facts[number]
        presence = _read_presence(row.presence)
        sessions = history.get(row.id, [])
        if since is not None and row.since is not None:
            sessions = [*sessions, MachineSession(row.since, None, None)]
        found.append(
            RankedMachine.of_row(
                row,
                rank=rank,
                state=_state(ranks, number, presence),
                score=float(ranks.ranking.score[number]),
                low=float(ranks.ranking.low[number]),
                high=float(ranks.ranking.high[number]),
                known=bool(ranks.ranking.known[number]),
                survival=float(ranks.stays.mean[number]),
                sound=float(ranks.sound.mean[number]),
                availability=float(vectors.availability[number]),
                success=float(vectors.success[number]),
                capacity=float(vectors.capacity[number]),
                age_s=None if row.since is None else max(now - row.since, 0.0),
                boots=presence.boots,
                clock_jumps=presence.clock_jumps,
                installations=presence.installations,
                processors=facts.processors,
                memory_bytes=facts.memory_bytes,
                flops=facts.flops,
                history=sessions,
            )
        )
    return found


def _history(connection: Connection, ids: Sequence[int], since: float) -> dict[int, list[MachineSession]]:
    query = (
        select(machine_sessions)
        .where(machine_sessions.c.machine_id.in_(bindparam("ids", expanding=True)), machine_sessions.c.end >= since)
        .order_by(machine_sessions.c.start)
    )
    found: dict[int, list[MachineSession]] = {}
    for begin in range(0, len(ids), _AT_ONCE):
        for row in connection.execute(query, {"ids": list(ids[begin : begin + _AT_ONCE])}):
            found.setdefault(row.machine_id, []).append(MachineSession.of_row(row))
    return found


def _state(ranks: MachineRanks, number: int, presence: Presence) -> MachineState:
    if presence.owner:
        return "owner"
    if not ranks.present[number]:
        return "absent"
    if not ranks.free[number]:
        return "busy"
    return "free" if ranks.columns.numbers["watched"][number] else "unknown"
