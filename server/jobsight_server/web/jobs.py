"""Jobs: their runs, and one job."""

from __future__ import annotations

import dataclasses
import io
from itertools import groupby
from typing import Any

from flask import Blueprint, Response, redirect, url_for
from msgspec.structs import astuple, replace
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.accounting.runs import STATES
from jobsight_server.advice.words import scheduler_of
from jobsight_server.ground.csv_text import write_csv
from jobsight_server.ground.parameters import ITS_NAME, NAME, RANGES, Parameter, whole_number
from jobsight_server.queries.efficiency import RESOURCE_OF
from jobsight_server.queries.job_detail import Job, RunDetail, job_detail
from jobsight_server.queries.job_named import is_task, job_clusters
from jobsight_server.queries.jobs import FOUND_BY, JOBS, JobArray, JobList, Run, job_list
from jobsight_server.queries.my_jobs import MyJobs, my_jobs
from jobsight_server.queries.timeline import POINTS
from jobsight_server.web.kit.inputs import (
    cluster_argument,
    given,
    integer_argument,
    one_cluster,
    required_name,
)
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route, context, not_found, reading, viewer
from jobsight_server.web.kit.time_range import span_argument
from jobsight_server.web.verdict import BARS, of_request, verdict


def asked_and_given(run: RunDetail, metric: str) -> tuple[float | None, float | None]:
    """Return the user's request and the allocation, which it is where it is not known; 0 is none."""
    asked, given = {
        "memory": (run.asked_memory_bytes, run.requested_memory_bytes),
        "runtime": (run.asked_walltime_s, run.requested_walltime_s),
        "cpu": (run.asked_processors, run.processors),
        "gpu_utilisation": (None, run.gpus),
    }.get(metric, (None, None))
    return (given if asked is None else asked) or None, given or None


CSV_ROWS = 100_000
"""Runs in a CSV file; all of larger sites are for ``jobsight export jobs``."""

_TIMES = frozenset({"start", "end", "created", "queued", "eligible", "recorded_at"})
_OF_ALL = "readings of a node cover all jobs on it: only staff sees them"


def jobs(limit: int | None = None) -> JobList:
    """Return the page that the request asks for, or the first ``limit`` runs."""
    LIST.refuse_unknown()  # on the page, too: a misspelt filter would show all jobs as matches
    here = context()
    since, until = span_argument(here.clock())
    asked = asked_of(JOBS, since=since, until=until)
    asked = asked if limit is None else dataclasses.replace(asked, page=1, limit=limit)
    return job_list(reading(), here.answers, here.clock(), asked)


def mine() -> MyJobs:
    here, user, listed, cluster = context(), required_name("user"), jobs(), cluster_argument()
    return my_jobs(reading(), here.answers, here.clock(), user, listed, here.settings.accounting, cluster)


def grouped(found: JobList) -> list[tuple[JobArray | None, list[Run]]]:
    """Return the page's rows in the order of its runs: None with single runs, or an array with its runs."""
    arrays = {(array.cluster, array.user): array for array in found.arrays}

    def array_of(run: Run) -> JobArray | None:
        array = arrays.get((run.cluster, run.user))
        return array if array is not None and is_task(run.job_id, run.array_task, array.job_id) else None

    rows = [(array, list(runs)) for array, runs in groupby(found.jobs, array_of)]
    shown = {(array.cluster, array.user) for array, _ in rows if array is not None}
    return [*rows, *((array, []) for key, array in arrays.items() if key not in shown)]


def _shown(found: JobList) -> dict[str, Any]:
    offered = {"states": STATES, "outcomes": FOUND_BY, "sorts": JOBS.sorts, "ranges": tuple(RANGES)}
    return {"offered": offered, "grouped": grouped(found), "csv_rows": CSV_ROWS}


def job() -> Job:
    here, job_id, points = context(), required_name("name"), integer_argument("points", POINTS, POINTS)
    cluster = one_cluster(job_clusters(reading(), job_id), "job", job_id)
    scheduler = scheduler_of(reading(), here.settings.accounting, cluster)
    found = job_detail(reading(), here.answers, cluster, job_id, here.clock(), points, scheduler)
    if found is None:
        raise not_found("job", job_id, cluster)
    who = viewer()
    return without_others(found) if who is not None and who.role == "user" else found


def _shown_of_job(found: Job) -> dict[str, Any]:
    settled = all(run.state != "running" and run.profiled for run in found.runs)
    shown = {"asked_and_given": asked_and_given, "verdict": verdict, "of_request": of_request, "bars": BARS}
    return {"settled": settled, "resources": RESOURCE_OF, **shown}


def without_others(job: Job) -> Job:
    """Return the job as its user sees it, without readings of nodes, which cover other users' jobs."""
    runs = [
        replace(run, nodes=[replace(node, series=None, reason=_OF_ALL) for node in run.nodes], nodes_drawn=0)
        for run in job.runs
    ]
    return replace(job, runs=runs)


LIST = Route(
    "/api/v1/jobs",
    jobs,
    "Runs of jobs, last recorded first by default; with a span, those that ended in it",
    listing=JOBS,
    own="user",
    page="jobs",
    shown=_shown,
)
MINE = Route(
    "/api/v1/user/jobs",
    mine,
    "One user on all clusters: what was killed this week and what to request instead, waste, waiting and running jobs, "
    "and the list of all",
    listing=JOBS,
    own="user",
)
JOB = Route(
    "/api/v1/job",
    job,
    "One job, by its id in the accounting log: its runs, their use, its nodes while it ran",
    (
        ITS_NAME,
        Parameter("cluster", "needed if several clusters have a job with this id", NAME),
        Parameter("points", "points per time series", whole_number(POINTS)),
    ),
    own="job",
    page="job",
    shown=_shown_of_job,
)
ROUTES = (LIST, MINE, JOB)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/mine", endpoint="mine")
    def show_mine() -> AnyResponse:
        if given("user") is None:  # of staff, who may choose one
            return redirect(url_for("pages.users"), 303)
        found = mine()
        return page("mine.html", found, MINE, **_shown(found.jobs))

    @pages.get("/jobs.csv", endpoint="jobs_csv")
    def table() -> Response:
        headers = {"Content-Disposition": 'attachment; filename="jobs.csv"'}
        names, text = Run.__struct_fields__, io.StringIO(newline="")
        write_csv(text, names, map(astuple, jobs(CSV_ROWS).jobs), _TIMES)
        return Response(text.getvalue(), headers=headers, content_type="text/csv; charset=utf-8")
