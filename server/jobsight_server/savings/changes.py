"""Changes of waiting jobs: in their forecasts, and by `jobsight adjust`, with the runs that had them and a trial."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec import Meta
from sqlalchemy import Connection, Row, and_, func, select

from jobsight_predictor.evaluation.trial import difference
from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import ENDED, FAILED_METRIC, QUEUED
from jobsight_server.adjust.ledger import DONE, STATES
from jobsight_server.ground.answers import Metric, Record, Share
from jobsight_server.storage.engine import rows_of
from jobsight_server.storage.schema import adjustments, forecast_changes, jobs, trial_jobs

LISTED = 1000


class Moved(Record):
    """A forecast and its reservation as of a ``time``, and their earlier values; in ``unit``."""

    time: float
    metric: Metric
    unit: str
    old_forecast: float | None
    new_forecast: float | None
    old_bound: float | None
    new_bound: float | None


class ForecastChange(Moved):
    """The same, with its job."""

    id: int
    cluster: str
    job_id: str
    user: str


class ForecastChanges(Record):
    """The first 1,000 changes after the requested one, oldest first.

    ``last`` is the ``since`` of the next request: the number of the last of these, or of the last stored.
    """

    now: float
    last: int
    changes: list[ForecastChange]


def changes_since(connection: Connection, since: int, now: float) -> ForecastChanges:
    """Return the changes with a number above ``since``."""
    columns = (*forecast_changes.c, jobs.c.cluster, jobs.c.job_id, jobs.c.user)
    query = select(*columns).join_from(forecast_changes, jobs, jobs.c.id == forecast_changes.c.run_id)
    query = query.where(forecast_changes.c.id > since).order_by(forecast_changes.c.id).limit(LISTED)
    found = [ForecastChange.of_row(row, unit=METRICS[row.metric].unit) for row in connection.execute(query)]
    last = connection.scalar(select(func.max(forecast_changes.c.id))) or 0
    return ForecastChanges(now, found[-1].id if len(found) == LISTED else max(last, since), found)


def changes_of(connection: Connection, run_id: int) -> list[Moved]:
    """Return the changes of one run, oldest first."""
    query = select(forecast_changes).where(forecast_changes.c.run_id == run_id).order_by(forecast_changes.c.id)
    return [Moved.of_row(row, unit=METRICS[row.metric].unit) for row in connection.execute(query)]


ADJUSTMENTS_LISTED = 50

Resource = Literal["memory", "runtime"]
State = Annotated[str, Meta(extra_json_schema={"enum": [*STATES]})]


class Adjustment(Record):
    """One change by `jobsight adjust`: of the whole job, in bytes or seconds. ``error``: the message of the scheduler's
    command."""

    id: int
    cluster: str
    job_id: str
    user: str
    resource: Resource
    old: float
    new: float
    reason: str
    state: State
    begun: float
    error: str | None


def last_adjustments(connection: Connection, cluster: str | None) -> list[Adjustment]:
    """Return the last 50 changes of one cluster, or of all, newest first."""
    query = select(adjustments).order_by(adjustments.c.id.desc()).limit(ADJUSTMENTS_LISTED)
    if cluster is not None:
        query = query.where(adjustments.c.cluster == cluster)
    return [
        Adjustment.of_row(row, old=float(row.old * row.times), new=float(row.new * row.times))
        for row in connection.execute(query)
    ]


class ChangedRun(NamedTuple):
    """An ended run that had a change: how much ``less`` than its user requested, in bytes or seconds, of which it ran
    for ``run_time_s``, and whether it ran out after it was lowered."""

    user: str
    resource: Resource
    end: float
    run_time_s: float
    less: float
    ran_out: bool


def changed_runs(connection: Connection, since: float, cluster: str | None) -> list[ChangedRun]:
    """Return the ended runs with changes that began since a time, of one cluster or of all."""
    of = [adjustments.c.state == DONE, adjustments.c.begun >= since]
    of += [] if cluster is None else [adjustments.c.cluster == cluster]
    made: dict[tuple[str, str, Resource], list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(select(adjustments).where(*of).order_by(adjustments.c.id)):
        made[row.cluster, row.job_id, row.resource].append(row)
    found = []
    for run in rows_of(connection, select(jobs), jobs.c.job_id, sorted({job_id for _, job_id, _ in made})):
        for resource in get_args(Resource):
            changes = made.get((run.cluster, run.job_id, resource), [])
            before = [row for row in changes if row.begun <= run.start]
            if run.state == ENDED and before:
                less = float(changes[0].old * changes[0].times - before[-1].new * before[-1].times)
                ran_out = less > 0 and FAILED_METRIC.get(run.failure) == resource
                found.append(ChangedRun(run.user, resource, run.end, run.end - run.start, less, ran_out))
    return found


Measure = Literal["memory_gib", "waiting_s", "failed_share"]
Arm = Literal["advice", "none"]


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

    arm: Arm
    assigned: int
    started: int
    ended: int


class TrialReport(Record):
    """One draw, by its seed: memory allocated to jobs, their wait, and the share that ran out of memory or time at
    their first run. ``level``: that of the intervals."""

    seed: str
    cluster: str | None
    level: Share
    arms: list[ArmCount]
    effects: list[Effect]


def trial_report(connection: Connection, seed: str, cluster: str | None = None, level: float = 0.95) -> TrialReport:
    """Return the results of one draw, without jobs that still wait: the means of both arms lack them."""
    rows = _first_runs(connection, seed, cluster)
    arms = [_count(arm, [row for row in rows if row.arm == arm]) for arm in get_args(Arm)]
    effects = [effect for measure in get_args(Measure) if (effect := _effect(measure, rows, level)) is not None]
    return TrialReport(seed, cluster, level, arms, effects)


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


def _count(arm: Arm, rows: list[Row[Any]]) -> ArmCount:
    started, ended = sum(row.start is not None for row in rows), sum(row.state == ENDED for row in rows)
    return ArmCount(arm, len(rows), started, ended)


def _value(measure: Measure, row: Row[Any]) -> float | None:
    if row.start is None:
        return None
    if measure == "waiting_s":
        return max(0.0, float(row.start - row.submitted))
    if measure == "memory_gib":
        return None if row.requested_memory_bytes is None else float(row.requested_memory_bytes) / 2**30
    return float(row.failure is not None) if row.state == ENDED else None


def _effect(measure: Measure, rows: list[Row[Any]], level: float) -> Effect | None:
    known = [(row, value) for row in rows if (value := _value(measure, row)) is not None]
    values, rows = [value for _, value in known], [row for row, _ in known]
    users = [f"{row.cluster}\0{row.user}" for row in rows]
    found = difference(values, [row.arm == "advice" for row in rows], users, level)
    if found is None:
        return None
    amounts = (found.treated, found.control, found.difference, found.low, found.high)
    return Effect(measure, len(rows), found.clusters, *amounts)
