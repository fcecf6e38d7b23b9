"""Machines by rank for a job, with the reasons: sessions, boots and outcomes of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from sqlalchemy import Connection, and_, func, select

from jobsight_predictor.reliability.resource_vector import WEIGHTS
from jobsight_predictor.reliability.sessions import Presence
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.request import job_question
from jobsight_server.ground.answers import Record, Share
from jobsight_server.ground.errors import RefusedError
from jobsight_server.queries.node_states import MachineLoss, Machines, MachineSession, NodeName, Reliability
from jobsight_server.queries.users import user_clusters
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.clusters import listed
from jobsight_server.storage.engine import rows_of
from jobsight_server.storage.schema import jobs
from jobsight_server.systems.ranking.board import (
    MachineBoard,
    MachineColumns,
    MachineRanks,
    RankQuestion,
    rank_machines,
)
from jobsight_server.systems.ranking.settings import RankingSettings, RankMethod
from jobsight_server.systems.ranking.tables import machine_outcomes, machine_sessions, machines

MachineState = Literal["free", "busy", "owner", "absent", "unknown"]
"""``unknown``: it has no agent."""

_read_presence = msgspec.json.Decoder(Presence).decode


class RankedMachine(Record):
    """A machine, and the reasons for its rank.

    ``score`` decides the rank, ``low`` and ``high`` are its range. ``survival`` is the probability that the machine
    stays for the run time, ``sound`` that it does not fail the job; ``availability``, ``success`` and ``capacity`` are
    the terms RA, JS and CA of its resource vector. A machine that is not ``known`` has no history: its score is at most
    the mean of the others.
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


class NotRanked(Record):
    """Machines without a rank: busy and absent ones of the clusters asked for."""

    absent: int
    busy: int


class MachineRanking(Record):
    """Machines for a job of this run time, best first; ``ranked`` also counts those beyond the limit."""

    now: float
    method: RankMethod
    run_time_s: float
    weights: tuple[float, float, float]
    total: int
    ranked: int
    left_out: NotRanked
    machines: list[RankedMachine]


def machine_ranking(
    connection: Connection,
    columns: MachineColumns,
    question: RankQuestion,
    now: float,
    *,
    name: str | None = None,
    limit: int = 100,
) -> MachineRanking:
    """Return the first ``limit`` machines, or those of ``name``."""
    ranks = rank_machines(columns, question, now)
    order = ranks.ranking.order
    places = [
        (rank, int(number))
        for rank, number in enumerate(order if name is not None else order[:limit], 1)
        if name is None or columns.names[number][1] == name
    ]
    absent, busy = ranks.asked & ~ranks.present, ranks.asked & ranks.present & ~ranks.free
    return MachineRanking(
        *(now, question.method, question.run_time_s, WEIGHTS),
        *(len(columns), len(order), NotRanked(int(absent.sum()), int(busy.sum()))),
        _rows(connection, ranks, places[:limit], now),
    )


def _rows(
    connection: Connection, ranks: MachineRanks, places: Sequence[tuple[int, int]], now: float
) -> list[RankedMachine]:
    columns, ranking, vectors = ranks.columns, ranks.ranking, ranks.vectors
    terms = {"survival": ranks.stays.mean, "sound": ranks.sound.mean}
    terms |= {name: getattr(ranking, name) for name in ("score", "low", "high")}
    terms |= {name: getattr(vectors, name) for name in ("availability", "success", "capacity")}
    ids = [int(columns.ids[number]) for _, number in places]
    stored = {row.id: row for row in rows_of(connection, select(machines), machines.c.id, ids)}
    found = []
    for rank, number in places:
        row, facts = stored[int(columns.ids[number])], columns.facts[number]
        presence = _read_presence(row.presence)
        found.append(
            RankedMachine.of_row(
                row,
                rank=rank,
                state=_state(ranks, number, presence),
                known=bool(ranking.known[number]),
                age_s=None if row.since is None else max(now - row.since, 0.0),
                **{name: float(term[number]) for name, term in terms.items()},
                **{name: getattr(presence, name) for name in ("boots", "clock_jumps", "installations")},
                **{name: getattr(facts, name) for name in ("processors", "memory_bytes", "flops")},
            )
        )
    return found


def _history(connection: Connection, number: int, since: float, begin: float | None) -> list[MachineSession]:
    """Return a machine's sessions since ``since``; the present one began at ``begin``."""
    of = machine_sessions.c
    query = select(machine_sessions).where(of.machine_id == number, of.end >= since).order_by(of.start)
    found = [MachineSession.of_row(row) for row in connection.execute(query)]
    return found if begin is None else [*found, MachineSession(begin, None, None)]


def _state(ranks: MachineRanks, number: int, presence: Presence) -> MachineState:
    if presence.owner:
        return "owner"
    if not ranks.present[number]:
        return "absent"
    if not ranks.free[number]:
        return "busy"
    return "free" if ranks.columns.numbers["watched"][number] else "unknown"


def predicted_run_time(
    connection: Connection, answers: AnswerReader, user: str, application: str | None, cluster: str | None
) -> float:
    """Return the run time forecast for the user's next job.

    Raises:
        RefusedError: the user is unknown, or known on several clusters, or there is no forecast.
    """
    clusters = [cluster] if cluster else user_clusters(connection, user)
    if len(clusters) != 1:
        why = f"is known on {listed(clusters)}; give the cluster" if clusters else "has no history"
        raise RefusedError(f"user {user[:60]!r} {why}", 400 if clusters else 404)
    question = ForecastRequest(clusters[0], job_question(user, application), "runtime")
    (answer,) = answers.answers(connection, [question])
    if answer.value is None:
        raise RefusedError(f"no forecast of the run time of user {user[:60]!r}: {answer.reason}; give a run time", 404)
    return max(answer.value, 0.0)


_LOST = ("evicted", "requeued", "failed")


def lost(connection: Connection, machine_id: int, since: float) -> tuple[int, float]:
    """Return the number of jobs lost on the machine since ``since``, and their processor-hours on all their nodes."""
    of = machine_outcomes.c
    same = and_(jobs.c.cluster == of.cluster, jobs.c.job_id == of.job_id, jobs.c.start == of.start)
    hours = func.coalesce(func.sum((of.end - of.start) * func.coalesce(jobs.c.processors, 1)), 0.0) / 3600.0
    query = select(func.count(), hours).select_from(machine_outcomes.outerjoin(jobs, same))
    number, found = connection.execute(
        query.where(of.machine_id == machine_id, of.end >= since, of.outcome.in_(_LOST))
    ).one()
    return int(number), float(found)


_HISTORY_S = 28 * 86400.0


@dataclass(frozen=True, slots=True)
class MachineRanker(Machines):
    """The site's method for questions, and the state of its machines."""

    method: RankMethod = "survival"
    board: MachineBoard = field(default_factory=MachineBoard)

    def chances(self, connection: Connection, run_time_s: float, now: float) -> Mapping[NodeName, float | None]:
        columns = self.board.columns(connection)
        ranking = rank_machines(columns, _question(run_time_s), now).ranking
        known = zip(columns.names, ranking.score.tolist(), ranking.known.tolist(), strict=True)
        return {name: score if is_known else None for name, score, is_known in known}

    def reliability(self, connection: Connection, name: NodeName, run_time_s: float, now: float) -> Reliability | None:
        columns, question = self.board.columns(connection), _question(run_time_s)
        found = machine_ranking(connection, columns, question, now, name=name[1], limit=len(columns))
        for row in found.machines:
            if row.cluster == name[0] and row.score is not None:
                number, since = int(columns.ids[columns.by_name[name]]), now - _HISTORY_S
                jobs, hours = lost(connection, number, since)
                same = {field: getattr(row, field) for field in Reliability.__struct_fields__ if hasattr(row, field)}
                return Reliability(
                    **same,
                    run_time_s=run_time_s,
                    reliability=row.score,
                    stays=row.survival,
                    lost_jobs=jobs,
                    lost_processor_hours=hours,
                    history_since=since,
                    history=_history(connection, number, since, row.since),
                )
        return None

    def worst(self, connection: Connection, cluster: str | None, now: float) -> MachineLoss | None:
        since, counted = now - _HISTORY_S, machines.c.evictions + machines.c.failures
        query = select(machines.c.id, machines.c.cluster, machines.c.name).where(counted > 0)
        if cluster is not None:
            query = query.where(machines.c.cluster == cluster)
        row = connection.execute(query.order_by(counted.desc(), machines.c.id).limit(1)).one_or_none()
        number, hours = (0, 0.0) if row is None else lost(connection, row.id, since)
        return MachineLoss(row.cluster, row.name, number, hours, since) if row is not None and number else None


def machine_ranker(settings: Settings) -> MachineRanker:
    """Return the machines' reliability by the settings' method."""
    return MachineRanker(settings.section(RankingSettings).method)


def _question(run_time_s: float) -> RankQuestion:
    return RankQuestion(run_time_s, "survival", everywhere=True)
