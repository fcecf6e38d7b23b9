"""The known needs of waiting jobs: recommendations, and failed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, select

from jobsight_server.accounting.runs import QUEUED, RUNNING
from jobsight_server.adjust.ledger import first_requests
from jobsight_server.adjust.plan import Known
from jobsight_server.adjust.present import PresentJob, Resource
from jobsight_server.advice.recommendation import recommend
from jobsight_server.advice.scheduler_words import JobRequest
from jobsight_server.advice.such_jobs import FAILURE_OF, LOOKED_AT, SuchJob, last_runs
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import asked_for, question_of
from jobsight_server.storage.facts import application
from jobsight_server.storage.schema import jobs

_GIVEN: Mapping[Resource, Any] = {"memory": jobs.c.requested_memory_bytes, "runtime": jobs.c.requested_walltime_s}


class Need(NamedTuple):
    """The known need of both resources, and the run times to try one after the other."""

    known: dict[Resource, Known]
    attempts_s: tuple[float, ...]


class Needs:
    """The known needs of jobs of one cluster; reads each user's history once."""

    def __init__(
        self, connection: Connection, reader: AnswerReader, cluster: str, present: Mapping[str, PresentJob]
    ) -> None:
        self._connection, self._reader, self._cluster = connection, reader, cluster
        self._first = first_requests(connection, cluster, present)
        query = select(jobs).where(jobs.c.cluster == cluster, jobs.c.state.in_((QUEUED, RUNNING)))
        self._runs: dict[str, Row[Any]] = {run.job_id: run for run in connection.execute(query.order_by(jobs.c.id))}
        self._last: dict[str, list[SuchJob]] = {}
        self._failed: dict[str, list[Row[Any]]] = {}

    def of(self, job: PresentJob) -> Need | None:
        """Return the known need of a waiting or running job; None if its log or queue has not been read yet."""
        run = self._runs.get(job.job_id)
        if run is None or run.user != job.user or (run.state == QUEUED) != (job.start is None):
            return None
        asked = asked_for(run)
        processors = asked.processors or 1
        of_run: dict[Resource, float | None] = {"memory": asked.memory_bytes, "runtime": asked.walltime_s}
        requests: dict[Resource, float] = {}
        for resource, amount_of_run in of_run.items():
            amount, first = job.amounts.get(resource), self._first.get((job.job_id, resource))
            requests[resource] = first or amount_of_run or (0.0 if amount is None else amount.whole)
        nodes = int(run.requested_nodes) if (run.requested_nodes or "").isdecimal() else None
        request = JobRequest(processors, nodes, requests["memory"] or None, requests["runtime"] or None)
        if job.user not in self._last:
            self._last[job.user] = last_runs(self._connection, self._cluster, job.user)
        found = recommend(
            self._connection,
            self._reader,
            self._cluster,
            question_of(run),
            request,
            runs=self._last[job.user],
            moment="start",
        )
        known: dict[Resource, Known] = {
            resource: Known(
                requests[resource],
                found.decisions[resource].amount,
                self._most_failed(job, run, resource),
                found.such_jobs.used(resource) or 0.0,
            )
            for resource in requests
        }
        return Need(known, found.attempts("runtime"))

    def _most_failed(self, job: PresentJob, run: Row[Any], resource: Resource) -> float:
        """Return the most that earlier runs of this job, or similar jobs of the user, had when they ran out of it."""
        if job.user not in self._failed:
            query = select(jobs).where(
                jobs.c.cluster == self._cluster, jobs.c.user == job.user, jobs.c.failure.is_not(None)
            )
            latest = self._connection.execute(query.order_by(jobs.c.end.desc()).limit(LOOKED_AT))
            self._failed[job.user] = list(latest.all())
        name, failure = application(run.name or ""), FAILURE_OF[resource]
        processors = asked_for(run).processors
        given = [
            getattr(other, _GIVEN[resource].name) or 0.0
            for other in self._failed[job.user]
            if other.failure == failure
            and (
                other.job_id == job.job_id
                or (
                    name is not None
                    and application(other.name or "") == name
                    and asked_for(other).processors == processors
                )
            )
        ]
        return float(max(given, default=0.0))
