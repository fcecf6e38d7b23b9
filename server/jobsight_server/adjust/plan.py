"""Plans the change of one job: the recommendation within the site's limits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from jobsight_server.accounting.runs import QUEUED, RUNNING
from jobsight_server.adjust.ledger import first_requests
from jobsight_server.adjust.present import PresentJob, RequestChange
from jobsight_server.advice.recommendation import JobRequest, recommend
from jobsight_server.decision.evidence import Resource
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import asked_for, question_of
from jobsight_server.settings.tables import AdjustLimits
from jobsight_server.storage.schema import jobs


@dataclass(frozen=True, slots=True)
class KnownNeed:
    """A job's known need of one resource, for the whole job.

    ``request`` is the user's; ``recommended`` is None without a better one. ``failed`` is the largest amount that a
    similar job ran out of, 0 for none. ``attempts``: the requests to try one after the other.
    """

    request: float
    recommended: float | None
    failed: float = 0.0
    attempts: tuple[float, ...] = ()


def share_of(*names: str) -> float:
    """Return a number from 0 to 1, fixed for these names and otherwise pseudo-random.

    >>> share_of("alpha", "ann") == share_of("alpha", "ann"), share_of("alpha", "ann") == share_of("alph", "aann")
    (True, False)
    """
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) / 2**64


def planned(
    job: PresentJob, resource: Resource, known: KnownNeed, limits: AdjustLimits, least: float
) -> RequestChange | None:
    """Return the change of a waiting job, to the ``least`` of the settings or more; None if it should stay as it is."""
    present = job.amounts[resource]
    most = limits.raise_to * known.request
    wanted = known.request if known.recommended is None else known.recommended
    reason = "as the user requested" if known.recommended is None else "recommended"
    floors = {
        "the least that the settings allow": least,
        "the lowest share of the request that the settings allow": limits.keep_share * known.request,
    }
    for why, floor in floors.items():
        if wanted < floor:
            wanted, reason = floor, why
    if wanted > most:
        wanted, reason = most, "as the user requested" if limits.raise_to == 1.0 else "the most that the settings allow"
    new = present.for_whole(wanted)
    if new > present.value and new * present.times > most:
        new = int(most / present.times) // present.step * present.step
    is_small = abs(new - present.value) < limits.least_change * present.value
    must = known.failed >= present.whole and new > present.value
    if new == present.value or new <= 0 or (is_small and not must):
        return None
    return RequestChange(job, resource, present, new, reason)


def planned_running(job: PresentJob, known: KnownNeed, now: float, limits: AdjustLimits) -> RequestChange | None:
    """Return more time for a running job that reaches its limit soon, if more is recommended."""
    present = job.amounts["runtime"]
    assert job.start is not None
    left_s = job.start + present.value - now
    longer = [amount for amount in known.attempts if amount > present.value]
    if not 0 < left_s <= limits.running_within_s or not longer:
        return None
    most = limits.raise_to * known.request
    new = min(present.for_whole(min(longer)), int(most) // present.step * present.step)
    return RequestChange(job, "runtime", present, new, "runs out of time soon") if new > present.value else None


def is_chosen(cluster: str, user: str, limits: AdjustLimits) -> bool:
    """Return whether the user is among the share whose jobs are changed, and not to be left alone."""
    return user not in limits.keep and share_of("users", cluster, user) < limits.users_share


class Needs:
    """The known needs of jobs of one cluster."""

    def __init__(
        self, connection: Connection, reader: AnswerReader, cluster: str, present: Mapping[str, PresentJob]
    ) -> None:
        self._connection, self._reader, self._cluster = connection, reader, cluster
        self._first = first_requests(connection, cluster, present)
        query = select(jobs).where(jobs.c.cluster == cluster, jobs.c.state.in_((QUEUED, RUNNING)))
        self._runs: dict[str, Row[Any]] = {run.job_id: run for run in connection.execute(query.order_by(jobs.c.id))}

    def of(self, job: PresentJob) -> dict[Resource, KnownNeed] | None:
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
        request = JobRequest(processors, nodes, requests["memory"] or None, requests["runtime"] or None, run.gpus or 0)
        found = recommend(self._connection, self._reader, self._cluster, question_of(run), request, moment="start")
        return {
            resource: KnownNeed(
                requests[resource],
                found.decisions[resource].amount,
                max((row.failed_at for row in found.decisions[resource].similar.rows), default=0.0),
                found.answers[resource].attempts,
            )
            for resource in requests
        }
