"""Results of `jobsight adjust --trial`: jobs changed beside jobs left alone, at random."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, func, select

from jobsight_predictor.evaluation.trial import difference
from jobsight_server.accounting.runs import ENDED, QUEUED
from jobsight_server.forecasts.record import Record, Share
from jobsight_server.storage.schema import jobs, trial_jobs

Measure = Literal["memory_gib", "waiting_s", "failed_share"]


class Effect(Record):
    """One measure: the mean of each arm, the difference between jobs of the same user, and its interval.

    ``users`` have jobs in both arms; with fewer than five of them there is no interval.
    """

    measure: Measure
    jobs: int
    users: int
    advice: float
    none: float
    difference: float
    low: float | None
    high: float | None


class ArmCount(Record):
    """Jobs of an arm: assigned, started, ended, and those that left without a run."""

    arm: Literal["advice", "none"]
    assigned: int
    started: int
    ended: int


class TrialReport(Record):
    """One draw, by its seed: memory allocated to jobs, their wait, and the share that ran out of memory or time at
    their first run. ``level``: that of the intervals."""

    seed: str
    cluster: str | None
    level: Share
    first_assigned: float | None
    last_assigned: float | None
    arms: list[ArmCount]
    effects: list[Effect]


def trial_report(connection: Connection, seed: str, cluster: str | None = None, level: float = 0.95) -> TrialReport:
    """Return the results of one draw, without jobs that still wait: the means of both arms lack them."""
    rows = _first_runs(connection, seed, cluster)
    times = [row.assigned for row in rows]
    counts = Counter((row.arm, name) for row in rows for name in _reached(row))
    arms = [
        ArmCount(arm, counts[arm, "assigned"], counts[arm, "started"], counts[arm, "ended"])
        for arm in ("advice", "none")
    ]
    effects = [
        effect
        for measure in _MEASURES
        if (effect := _effect(measure, [row for row in rows if _value(measure, row) is not None], level)) is not None
    ]
    return TrialReport(seed, cluster, level, min(times, default=None), max(times, default=None), arms, effects)


_MEASURES: tuple[Measure, ...] = ("memory_gib", "waiting_s", "failed_share")


def _first_runs(connection: Connection, seed: str, cluster: str | None) -> list[Row[Any]]:
    """Return each job of the trial with its first run since its assignment, if there is one."""
    of = trial_jobs.c
    names = ("start", "state", "failure", "requested_memory_bytes")
    since = and_(jobs.c.cluster == of.cluster, jobs.c.job_id == of.job_id, jobs.c.state != QUEUED)
    since = and_(since, jobs.c.start >= of.assigned - 60.0)
    place = func.row_number().over(partition_by=of.id, order_by=jobs.c.start).label("place")
    columns: list[Any] = [trial_jobs, *(jobs.c[name] for name in names), place]
    query = select(*columns).outerjoin_from(trial_jobs, jobs, since).where(of.seed == seed)
    if cluster is not None:
        query = query.where(of.cluster == cluster)
    return [row for row in connection.execute(query.order_by(of.id)) if row.place == 1]


def _reached(row: Row[Any]) -> list[str]:
    started = ["started"] if row.start is not None else []
    return ["assigned", *started, *(["ended"] if row.state == ENDED else [])]


def _value(measure: Measure, row: Row[Any]) -> float | None:
    if row.start is None:
        return None
    if measure == "waiting_s":
        return max(0.0, float(row.start - row.submitted))
    if measure == "memory_gib":
        return None if row.requested_memory_bytes is None else float(row.requested_memory_bytes) / 2**30
    return float(row.failure is not None) if row.state == ENDED else None


def _effect(measure: Measure, rows: list[Row[Any]], level: float) -> Effect | None:
    values = [value for row in rows if (value := _value(measure, row)) is not None]
    users = [f"{row.cluster}\0{row.user}" for row in rows]
    found = difference(values, [row.arm == "advice" for row in rows], users, level)
    if found is None:
        return None
    amounts = (found.treated, found.control, found.difference, found.low, found.high)
    return Effect(measure, len(rows), found.clusters, *amounts)
