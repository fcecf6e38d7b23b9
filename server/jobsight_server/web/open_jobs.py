"""Waiting and running jobs: lists from schedulers that no command lists, and forecasts for many jobs at once."""

from __future__ import annotations

from math import inf
from typing import Annotated

import msgspec
from flask import Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest, Conflict

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.follow_queue import SETTLED_S, remove_gone
from jobsight_server.accounting.load import LoadReport, ParsedChunk, store_chunk
from jobsight_server.accounting.parsers.quantities import LATEST, LONGEST_INDEXED, LONGEST_TEXT
from jobsight_server.accounting.runs import JobEvent, RunRecord
from jobsight_server.accounting.store import lock_cluster
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.ground.answers import Metric, Record
from jobsight_server.ground.facts import found_facts
from jobsight_server.ground.parameters import LATEST_TIME_S, Parameter
from jobsight_server.queries.open_jobs import OpenJobs, open_jobs
from jobsight_server.savings.changes import ForecastChanges, changes_since
from jobsight_server.web.kit.converters import ID
from jobsight_server.web.kit.inputs import (
    AskedName,
    JobProperties,
    cluster_name,
    name_text,
    number_argument,
    number_of,
    parsed_body,
    question_in_body,
)
from jobsight_server.web.kit.routes import Route, context, reading, record_reply

JOBS_AT_MOST = 10_000

Ids = Annotated[list[AskedName], Meta(extra_json_schema={"maxItems": JOBS_AT_MOST})]
Time = Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": LATEST_TIME_S})]


class WaitingJob(JobProperties, kw_only=True):
    """A waiting job: its id in the accounting log, and its submission (UTC epoch seconds)."""

    job_id: AskedName
    submitted: Time


class WaitingJobs(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/jobs``: every waiting job of the cluster."""

    cluster: AskedName
    jobs: Annotated[list[WaitingJob], Meta(extra_json_schema={"maxItems": JOBS_AT_MOST})]


class WaitingStored(Record):
    """The number of waiting jobs listed, and the number that disappeared without a record."""

    waiting: int
    gone: int


class ForecastsAsked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/forecasts``: ids of jobs, of one cluster or of all.

    Without ``metrics``: memory and run time.
    """

    ids: Ids
    cluster: AskedName | None = None
    metrics: Annotated[tuple[Metric, ...], Meta(extra_json_schema={"minItems": 1})] = ASKED_FOR


def replace_waiting() -> Response:
    here = context()
    shape = '{"cluster": C, "jobs": [{"job_id": ID, "user": U, "submitted": EPOCH_S}]}'
    asked = parsed_body(WaitingJobs, shape, here.settings.max_body_bytes)
    cluster = cluster_name(asked.cluster, "cluster")
    if any(source.cluster == cluster and source.queue_command for source in here.settings.accounting):
        raise Conflict(f"cluster {cluster[:60]!r}: a command of the settings lists its queue; remove squeue or qstat")
    if len(asked.jobs) > JOBS_AT_MOST:
        raise BadRequest(f"{len(asked.jobs)} jobs; at most {JOBS_AT_MOST} may wait")
    events: dict[str, JobEvent] = {}
    for number, job in enumerate(asked.jobs):
        if job.job_id in events:
            raise BadRequest(f"jobs[{number}].job_id = {job.job_id[:60]!r} is there twice; give each job once")
        events[job.job_id] = _event(job, f"jobs[{number}].")
    now = here.clock()
    with here.write_engine.begin() as connection:
        lock_cluster(connection, cluster)
        waiting = ParsedChunk([*events.values()], ())
        report = LoadReport()
        store_chunk(connection, cluster, "POST /api/v1/jobs", waiting, now, report)
        gone = remove_gone(connection, cluster, events.keys(), now - SETTLED_S)
    return record_reply(WaitingStored(len(events) - report.rejected.total(), gone))


def _event(job: WaitingJob, place: str) -> JobEvent:
    question = question_in_body(job, place)
    for name in ("job_id", "user", "application", "queue", "group", "account"):
        value, longest = getattr(job, name), LONGEST_INDEXED if name in ("job_id", "user") else LONGEST_TEXT
        if value is not None and len(name_text(value, f"{place}{name}")) > longest:
            raise BadRequest(f"{place}{name} has {len(value)} characters; at most {longest} are taken")
    submitted = number_of(job.submitted, f"{place}submitted", LATEST)
    memory = question.requested_memory_bytes
    run = RunRecord(
        user=job.user,
        start=inf,
        group=job.group,
        account=job.account,
        name=job.application,
        queue=job.queue,
        queued=submitted,
        processors=question.processors,
        requested_walltime_s=question.requested_time_s,
        requested_memory_bytes=None if memory is None else round(memory * (question.processors or 1)),
        facts=found_facts((name, repr(value)) for name, value in question.facts).text,
    )
    return JobEvent("Q", job.job_id, submitted, run, utc_s=submitted)


def ask() -> Response:
    limit = context().settings.max_body_bytes
    asked = parsed_body(ForecastsAsked, '{"cluster": C, "ids": [ID]}', limit)
    cluster = None if asked.cluster is None else cluster_name(asked.cluster, "cluster")
    if not asked.metrics or not METRICS.keys() >= set(asked.metrics):
        raise BadRequest(f"metrics = {asked.metrics!r:.80}: give some of {', '.join(METRICS)}")
    if len(asked.ids) > JOBS_AT_MOST:
        raise BadRequest(f"ids has {len(asked.ids)} entries; at most {JOBS_AT_MOST} in one request")
    names = [name_text(job_id, f"ids[{number}]") for number, job_id in enumerate(asked.ids)]
    here, metrics = context(), tuple(dict.fromkeys(asked.metrics))
    return record_reply(open_jobs(reading(), here.answers, cluster, names, metrics, here.clock()))


def changes() -> ForecastChanges:
    return changes_since(reading(), int(number_argument("since", ID) or 0), context().clock())


ROUTES = (
    Route(
        "/api/v1/jobs",
        replace_waiting,
        f"Replaces the list of all waiting jobs of a cluster, at most {JOBS_AT_MOST}; for "
        "schedulers whose queue no command of the settings lists",
        method="POST",
        errors=(409,),
        answer=WaitingStored,
        body=WaitingJobs,
    ),
    Route(
        "/api/v1/forecasts",
        ask,
        f"Forecasts now for at most {JOBS_AT_MOST} waiting or running jobs, beside those at submission and start",
        method="POST",
        answer=OpenJobs,
        body=ForecastsAsked,
    ),
    Route(
        "/api/v1/changes",
        changes,
        "Changes by a quarter or more in forecasts of memory and run time of waiting jobs, oldest first",
        (Parameter("since", "only after the change of this number: last of the answer before, or 0", ID),),
    ),
)
