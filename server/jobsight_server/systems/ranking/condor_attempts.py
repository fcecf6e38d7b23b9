"""Counts the attempts of an HTCondor log on their machines, each once however often the log is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from jobsight_predictor.reliability.resource_vector import new_record
from jobsight_server.systems.ranking.blame import JudgedRun, ends_of
from jobsight_server.systems.ranking.condor_log import LoggedAttempt
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.learning import learn
from jobsight_server.systems.ranking.outcomes import count_end, counted_before
from jobsight_server.systems.ranking.rows import read_machines, write_machines
from jobsight_server.systems.ranking.state import lock_reliability, write_reliability

_AT_ONCE = 5000


@dataclass(slots=True)
class AttemptsCounted:
    """Attempts that count from now on, those that did before, and how many machines they concern."""

    counted: int = 0
    known: int = 0
    machines: int = 0


def count_attempts(
    engine: Engine, config: RankConfig, cluster: str, user: str, attempts: Sequence[LoggedAttempt]
) -> AttemptsCounted:
    """Counts the attempts of ``user``'s jobs, some thousand in a transaction.

    As of the newest of them, so that an old log counts: events long before it count little.
    """
    newest = max((attempt.end for attempt in attempts), default=0.0)
    done = AttemptsCounted(machines=len({attempt.host for attempt in attempts}))
    for begin in range(0, len(attempts), _AT_ONCE):
        _count(engine, config, cluster, user, attempts[begin : begin + _AT_ONCE], newest, done)
    return done


def _count(
    engine: Engine,
    config: RankConfig,
    cluster: str,
    user: str,
    attempts: Sequence[LoggedAttempt],
    now: float,
    done: AttemptsCounted,
) -> None:
    runs = [(attempt, _run(cluster, user, attempt)) for attempt in attempts]
    with engine.begin() as connection:
        state = lock_reliability(connection)
        names = dict.fromkeys((cluster, attempt.host) for attempt in attempts)
        found = read_machines(connection, names, new_record(config.vector))
        known = counted_before(connection, [run for _, run in runs], found)
        for attempt, run in runs:
            key = (cluster, attempt.host, run.job_id, run.start)
            if key in known:
                done.known += 1
                continue
            known.add(key)
            end = attempt.outcome
            if end == "failed":
                blamed = ends_of(connection, run, found, set(), may_wait=False)
                count_end(found[cluster, attempt.host], run, (blamed or {})[attempt.host], config, now)
            else:
                count_end(found[cluster, attempt.host], run, end, config, now)
            done.counted += 1
        rows, version = list(found.values()), state.version + 1
        if write_machines(connection, rows, version):
            learn(connection, state, rows, version)
            state.version = version
        write_reliability(connection, state)


def _run(cluster: str, user: str, attempt: LoggedAttempt) -> JudgedRun:
    status = 1 if attempt.outcome == "failed" else 0
    return JudgedRun(
        cluster=cluster,
        job_id=f"condor {attempt.job_id}",
        start=attempt.start,
        end=attempt.end,
        user=user,
        application="",
        nodes={attempt.host: 1},
        requeued=False,
        exit_status=status,
        recorded_at=attempt.end,
    )
