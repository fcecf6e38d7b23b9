"""What a finished run used of what it asked for, and what to ask for next time; all of the whole job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import Connection, Row

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import ENDED
from jobsight_server.advice.job_request import JobRequest
from jobsight_server.advice.recommendation import ASKED_FOR, Recommendation, recommend
from jobsight_server.facts import facts_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.job import job_question
from jobsight_server.record import Record

RESOURCES = {"processors": "cpu", "memory": "memory", "runtime": "runtime", "bandwidth": "bandwidth"}
"""What a job asks for, and the metric that measures its use."""

_UNITS = {"processors": "processors", "memory": "bytes", "runtime": "s", "bandwidth": "bit/s"}

Resource = Annotated[str, Meta(extra_json_schema={"enum": [*RESOURCES]})]
Unit = Annotated[str, Meta(extra_json_schema={"enum": [*_UNITS.values()]})]


class Efficiency(Record):
    """What a run asked for of one resource, used, and what the next such job should ask for.

    ``used`` of processors is how many were busy on average, of bandwidth the mean; ``efficiency`` is its share of
    ``requested`` and may be above 1. ``at_least``: the run ran out of it, and would have used more. ``apportioned``:
    the use is a share of its nodes' by the processors that it held. ``reason``: why there is no use or no efficiency.
    """

    resource: Resource
    unit: Unit
    requested: float | None
    used: float | None
    efficiency: float | None
    at_least: bool
    apportioned: bool
    reason: str | None
    ask_next: float | None


def efficiencies(
    connection: Connection, reader: AnswerReader, run: Row[Any], profile: Sequence[Any], nodes: int
) -> list[Efficiency]:
    """One for each resource, none for a run that has not ended.

    ``run`` is a row of ``jobs``, ``profile`` has its metrics.
    """
    if run.end is None:
        return []
    asked = run.asked_processors or run.processors
    processors = asked or 1
    memory = (run.requested_memory_bytes if run.asked_memory_bytes is None else run.asked_memory_bytes) or None
    walltime = (run.requested_walltime_s if run.asked_walltime_s is None else run.asked_walltime_s) or None
    subject = (run.user, run.name, run.queue, processors, memory, walltime, run.group, run.account)
    question = job_question(*subject, facts=facts_of(run.facts))
    found = recommend(
        connection,
        reader,
        run.cluster,
        question,
        JobRequest(processors, nodes or None, memory, walltime),
        tuple(METRICS),
    )
    used_s = _run_time(run)
    requested = {"processors": asked, "memory": memory, "runtime": walltime, "bandwidth": None}
    by_metric = {entry.metric: entry for entry in profile}
    return [
        _efficiency(
            resource,
            requested[resource],
            by_metric[metric],
            run.processors if resource == "processors" else asked,  # shares of each are measured
            _ask_next(resource, found, processors),
            used_s if metric == "runtime" else None,
        )
        for resource, metric in RESOURCES.items()
    ]


def _run_time(run: Row[Any]) -> float | None:
    """Of a run that is not profiled because it was requeued or deleted: the log says how long it ran."""
    if run.state == ENDED:
        return None
    elapsed: float = run.end - run.start - (run.suspended_s or 0.0)
    return elapsed if run.used_walltime_s is None else run.used_walltime_s


def _efficiency(
    resource: str,
    requested: float | None,
    entry: Any,
    processors: int | None,
    ask_next: float | None,
    logged: float | None,
) -> Efficiency:
    count = 1 if resource == "runtime" else processors
    value = logged if entry.value is None else entry.value
    used = None if value is None or count is None else value * count
    reason = None
    if value is None:
        reason = entry.reason or "not measured"
    elif used is None:
        reason = "the log does not say how many processors it had"
    elif requested is None:
        reason = "jobs request no bandwidth" if resource == "bandwidth" else "it requested no amount"
    return Efficiency(
        resource=resource,
        unit=_UNITS[resource],
        requested=None if requested is None else float(requested),
        used=used,
        efficiency=used / requested if used is not None and requested is not None else None,
        at_least=entry.lower_bound,
        apportioned=entry.value is not None and entry.attribution == "apportioned",
        reason=reason,
        ask_next=ask_next,
    )


def _ask_next(resource: str, found: Recommendation, processors: int) -> float | None:
    """Of what jobs of other users show, nothing: that is no advice on this user's own use.

    In whole processors, and no more than the run had: what used them all says nothing of what more would do.
    """
    if resource in ASKED_FOR:
        return found.amount(resource)
    answer = found.answers[RESOURCES[resource]]
    if not answer.user_jobs or answer.bound is None:
        return None
    if resource == "bandwidth":
        return answer.bound
    return float(min(processors, max(1, math.ceil(answer.bound - 1e-6))))
