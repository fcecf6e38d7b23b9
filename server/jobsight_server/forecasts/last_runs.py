"""A user's last runs: what they requested and used."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, false, func, or_, select

from jobsight_predictor.question import Facts
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.decision.evidence import CHECK
from jobsight_server.ground.facts import facts_of
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import jobs, profiles
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME

LOOKED_AT = 200
"""Number of a user's last finished runs to read."""

FAILURE_OF = {metric: failure for failure, metric in FAILED_METRIC.items()}
OUT_OF_MEMORY, OUT_OF_TIME = FAILURE_OF["memory"], FAILURE_OF["runtime"]

_MEMORY, _RUNTIME = profiles.alias("memory"), profiles.alias("runtime")


class LastRun(NamedTuple):
    """A finished run: its request and its use, of the whole job; None where unknown."""

    run_id: int
    application: str | None
    processors: int
    memory_bytes: float | None
    runtime_s: float | None
    failure: str | None
    submitted: float | None = None
    end: float | None = None
    job_id: str = ""
    name: str | None = None
    queue: str | None = None
    group: str | None = None
    account: str | None = None
    requested_memory_bytes: float | None = None
    requested_walltime_s: float | None = None
    requested_nodes: str | None = None
    memory_word: str | None = None
    gpus: int | None = None
    facts: Facts = ()

    def requested(self, metric: str) -> float | None:
        """Return the requested memory or run time."""
        return self.requested_memory_bytes if metric == "memory" else self.requested_walltime_s

    def used(self, metric: str) -> float | None:
        """Return the memory or run time used."""
        return self.memory_bytes if metric == "memory" else self.runtime_s


def _measured(metric: Any, name: str) -> Any:
    """Return the condition for a run's profile in one metric to be the use of the whole job.

    Values with ``shown_only`` are shares of a node's use, or of a part of the job. Those of a run that ran out of the
    resource count as well: similar jobs used at least that much.
    """
    ran_out = and_(metric.c.lower_bound, jobs.c.failure == FAILURE_OF[name])
    return and_(metric.c.run_id == jobs.c.id, metric.c.metric == name, or_(metric.c.shown_only == false(), ran_out))


_COUNT = func.coalesce(func.nullif(ASKED_PROCESSORS, 0), 1)
_OF_USER = (
    jobs.c.cluster == bindparam("cluster"),
    jobs.c.user == bindparam("user"),
    jobs.c.end.is_not(None),
    jobs.c.state == "ended",
)
_LATEST_FIRST = (jobs.c.end.desc(), jobs.c.id.desc())
_COLUMNS = {
    "run_id": jobs.c.id,
    "processors": _COUNT,
    "memory_bytes": _MEMORY.c.value * _COUNT,
    "runtime_s": _RUNTIME.c.value,
    "submitted": func.coalesce(jobs.c.submitted, jobs.c.start),
    "requested_memory_bytes": func.nullif(ASKED_MEMORY, 0),  # 0 is none
    "requested_walltime_s": func.nullif(ASKED_WALLTIME, 0),
}
"""Those of ``LastRun`` that are not the columns of ``jobs`` with the same names."""
# Built once: that costs as much as an execution.
_LAST_RUNS = (
    select(*(_COLUMNS[name] if name in _COLUMNS else jobs.c[name] for name in LastRun._fields))
    .outerjoin(_MEMORY, _measured(_MEMORY, "memory"))
    .outerjoin(_RUNTIME, _measured(_RUNTIME, "runtime"))
    .where(*_OF_USER)
    .order_by(*_LATEST_FIRST)
    .limit(bindparam("at_most"))
)
_OF_APPLICATION = _LAST_RUNS.where(jobs.c.application == bindparam("application"))


def last_runs(
    connection: Connection, cluster: str, user: str, application: str | None = None, at_most: int = LOOKED_AT
) -> list[LastRun]:
    """Read the user's last finished runs, latest first; of this ``application``, if given."""
    chosen = {"cluster": cluster, "user": user, "at_most": at_most}
    if application is None:
        rows = fetch(connection, _LAST_RUNS, chosen)
    else:
        rows = fetch(connection, _OF_APPLICATION, chosen | {"application": application})
    found = [LastRun._make((*values, facts_of(facts) if facts else ())) for *values, facts in rows]
    return [run for run in found if run.application != CHECK]
