"""Changes by `jobsight adjust`, what they freed, and what failed."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from msgspec import Meta
from sqlalchemy import Connection, Row, select

from jobsight_server.accounting.runs import ENDED, FAILED_METRIC, QUEUED
from jobsight_server.adjust.ledger import DONE, FAILED, STATES, UNDONE
from jobsight_server.forecasts.record import Record
from jobsight_server.storage.schema import adjustments, jobs

DAYS = 30
LISTED = 50
_HOUR_S = 3600.0
_UNITS = {"memory": 2**30, "runtime": _HOUR_S}

Resource = Literal["memory", "runtime"]
State = Annotated[str, Meta(extra_json_schema={"enum": [*STATES]})]


class Adjustment(Record):
    """One change: of the whole job, in bytes or seconds. ``error``: the message of the scheduler's command."""

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


class AdjustedResource(Record):
    """Changed jobs that have ended: ``lowered`` and ``raised`` against their users' requests.

    ``freed_hours``: GiB-hours that they held less than requested, or processor-hours by which their limits were
    shorter. ``ran_out`` of the lowered ones ran out of it. ``waiting`` changed jobs have not run yet; ``undone`` and
    ``refused`` are changes that were undone, and that the scheduler refused.
    """

    resource: Resource
    lowered: int
    raised: int
    freed_hours: float
    ran_out: int
    waiting: int
    undone: int
    refused: int


class Adjusted(Record):
    """Changes of the last 30 days, and the last 50 of them, newest first."""

    cluster: str | None
    resources: list[AdjustedResource]
    last: list[Adjustment]


def adjusted(connection: Connection, now: float, cluster: str | None = None) -> Adjusted:
    """Read the savings of one cluster, or of all."""
    of = [adjustments.c.begun >= now - DAYS * 86400] + ([] if cluster is None else [adjustments.c.cluster == cluster])
    rows = connection.execute(select(adjustments).where(*of).order_by(adjustments.c.id)).all()
    found = [_resource(connection, name, [row for row in rows if row.resource == name]) for name in _NAMES]
    last = [
        Adjustment.of_row(row, old=float(row.old * row.times), new=float(row.new * row.times))
        for row in rows[: -LISTED - 1 : -1]
    ]
    return Adjusted(cluster, found, last)


_NAMES: tuple[Resource, ...] = ("memory", "runtime")
_AT_ONCE = 500


def _resource(connection: Connection, resource: Resource, rows: list[Row[Any]]) -> AdjustedResource:
    states = Counter(row.state for row in rows)
    requests: dict[tuple[str, str], float] = {}
    made: dict[tuple[str, str], list[Row[Any]]] = {}
    for row in rows:
        if row.state == DONE:
            requests.setdefault((row.cluster, row.job_id), float(row.old * row.times))
            made.setdefault((row.cluster, row.job_id), []).append(row)
    lowered = raised = ran_out = waiting = 0
    freed = 0.0
    for run in _runs(connection, sorted(made)):
        key = (run.cluster, run.job_id)
        if run.state == QUEUED:
            waiting += 1
            continue
        before = [row for row in made[key] if row.begun <= run.start]
        if run.state != ENDED or not before:
            continue
        less = requests[key] - float(before[-1].new * before[-1].times)
        held = run.end - run.start if resource == "memory" else run.processors or 1
        freed += less * held / _UNITS[resource] / (_HOUR_S if resource == "memory" else 1.0)
        lowered += less > 0
        raised += less < 0
        ran_out += less > 0 and FAILED_METRIC.get(run.failure) == resource
    return AdjustedResource(resource, lowered, raised, freed, ran_out, waiting, states[UNDONE], states[FAILED])


def _runs(connection: Connection, keys: list[tuple[str, str]]) -> list[Row[Any]]:
    found: list[Row[Any]] = []
    for begin in range(0, len(keys), _AT_ONCE):
        some = keys[begin : begin + _AT_ONCE]
        query = select(jobs).where(jobs.c.job_id.in_([job_id for _, job_id in some]))
        found += [run for run in connection.execute(query) if (run.cluster, run.job_id) in set(some)]
    return found
