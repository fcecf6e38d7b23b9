"""Jobs: their runs, and one job."""

from __future__ import annotations

import io
from dataclasses import replace as replace_route
from itertools import groupby
from typing import NamedTuple

from flask import Blueprint, Response, request
from msgspec.structs import replace
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response as AnyResponse

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import STATES
from jobsight_server.advice.ask_lines import scheduler_of
from jobsight_server.queries.efficiency import RESOURCES
from jobsight_server.queries.exported_jobs import write_csv
from jobsight_server.queries.job_detail import Job, RunDetail, job_detail
from jobsight_server.queries.job_named import is_task, job_clusters
from jobsight_server.queries.jobs import SORTS, JobArray, JobFilters, JobList, Run, job_list
from jobsight_server.queries.open_jobs import OpenJob, open_job
from jobsight_server.queries.timeline import POINTS
from jobsight_server.web.kit.inputs import (
    integer_argument,
    one_cluster,
    required_name,
)
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.routes import ITS_NAME, NAME, TIME, Parameter, Route, choice_of, context, not_found, viewer
from jobsight_server.web.kit.time_range import RANGES, SPAN, span_argument

RESOURCE_OF = {metric: resource for resource, metric in RESOURCES.items()}
"""Metric -> the resource that it measures."""


class Bar(NamedTuple):
    """A run's request, reservation, forecast and use in one metric beside each other, of the whole job."""

    metric: str
    requested: float | None
    reserved: float | None
    forecast: float | None
    used: float | None
    at_least: bool
    so_far: bool

    @property
    def most(self) -> float | None:
        """Return the largest amount; None without any."""
        return max(
            (of for of in (self.requested, self.reserved, self.forecast, self.used) if of is not None), default=None
        )

    @property
    def is_over(self) -> bool:
        """Return whether the run used more than the recommended reservation."""
        return self.used is not None and self.reserved is not None and self.used > self.reserved

    def place(self, amount: float | None) -> float | None:
        """Return the position of an amount on a scale from 0 to 100."""
        return None if amount is None else round(amount * 100.0 / (self.most or 1.0), 2)


def bars(run: RunDetail) -> list[Bar]:
    """Return a bar for each metric with a known value."""
    found = []
    for entry in run.profile:
        count = 1 if METRICS[entry.metric].is_of_job else run.asked_processors or run.processors or 1
        if entry.metric not in RESOURCE_OF:
            continue
        use = entry.so_far if entry.value is None else entry.value
        reserved, forecast, used = (
            None if amount is None else amount * count for amount in (entry.bound, entry.forecast, use)
        )
        is_so_far = entry.value is None and entry.so_far is not None
        requested = _requested(run, entry.metric)
        found.append(Bar(entry.metric, requested, reserved, forecast, used, entry.lower_bound, is_so_far))
    return [bar for bar in found if bar.most is not None]


def _requested(run: RunDetail, metric: str) -> float | None:
    """Return the user's request, else the job's allocation; a request of 0 is none."""
    asked, given = {
        "memory": (run.asked_memory_bytes, run.requested_memory_bytes),
        "runtime": (run.asked_walltime_s, run.requested_walltime_s),
        "cpu": (run.asked_processors, run.processors),
    }.get(metric, (None, None))
    return (given if asked is None else asked) or None


_TIMES = frozenset({"start", "end", "created", "queued", "eligible", "recorded_at"})
_OF_ALL = "readings of a node cover all jobs on it: only staff sees them"


def jobs() -> JobList:
    _refuse_unknown(JOBS)
    here, asked, given_filters = context(), LISTING.asked(), LISTING.filtered()
    since, until = span_argument(here.clock())
    used_below, profiled = given_filters["used_below"], given_filters["profiled"]
    given_filters |= {
        "since": since,
        "until": until,
        "used_below": None if used_below is None else used_below / 100,
        "profiled": None if profiled is None else profiled == "yes",
    }
    with here.read_engine.connect() as connection:
        return job_list(connection, here.answers, here.clock(), asked, JobFilters(**given_filters))


def grouped(found: JobList) -> list[tuple[JobArray | None, list[Run]]]:
    """Return the page's rows in the order of its runs: None with single runs, or an array with its runs."""
    arrays = {(array.cluster, array.user): array for array in found.arrays}

    def array_of(run: Run) -> JobArray | None:
        array = arrays.get((run.cluster, run.user))
        return array if array is not None and is_task(run.job_id, run.array_task, array.job_id) else None

    rows = [(array, list(runs)) for array, runs in groupby(found.jobs, array_of)]
    shown = {(array.cluster, array.user) for array, _ in rows if array is not None}
    return [*rows, *((array, []) for key, array in arrays.items() if key not in shown)]


def jobs_csv() -> Response:
    headers = {"Content-Disposition": 'attachment; filename="jobs.csv"'}
    names, text = Run.__struct_fields__, io.StringIO(newline="")
    write_csv(text, names, ([getattr(run, name) for name in names] for run in jobs().jobs), _TIMES)
    return Response(text.getvalue(), headers=headers, content_type="text/csv; charset=utf-8")


def _refuse_unknown(route: Route) -> None:
    """Refuse unknown parameters on the page, like the API: a misspelt filter would show all jobs as matches."""
    allowed = [parameter.name for parameter in route.parameters]
    for name in request.args:
        if name not in allowed:
            raise BadRequest(f"query parameter {name[:60]!r} is unknown; use one of: {', '.join(allowed)}")


def job() -> Job:
    here, job_id, points = context(), required_name("name"), integer_argument("points", POINTS, POINTS)
    with here.read_engine.connect() as connection:
        cluster, found = one_cluster(job_clusters(connection, job_id), "job"), None
        if cluster is not None:
            scheduler = scheduler_of(here.settings.accounting, cluster)
            found = job_detail(connection, here.answers, cluster, job_id, here.clock(), points, scheduler)
    if found is None:
        raise not_found("job", job_id, cluster)
    who = viewer()
    return without_others(found) if who is not None and who.role == "user" else found


def without_others(job: Job) -> Job:
    """Return the job as its user sees it, without readings of nodes, which cover other users' jobs."""
    runs = [
        replace(run, nodes=[replace(node, series=None, reason=_OF_ALL) for node in run.nodes], nodes_drawn=0)
        for run in job.runs
    ]
    return replace(job, runs=runs)


def job_forecast() -> OpenJob:
    here, job_id = context(), required_name("name")
    with here.read_engine.connect() as connection:
        clusters = job_clusters(connection, job_id)
        cluster = one_cluster(clusters, "job")
        if cluster is None or cluster not in clusters:
            raise not_found("job", job_id, cluster)
        return open_job(connection, here.answers, cluster, job_id, here.clock())


EXIT_STATUS: dict[str, object] = {"type": "integer", "minimum": -999_999_999, "maximum": 999_999_999}

LISTING = Listing(
    SORTS,
    is_searched=False,
    filters=(
        Parameter("user", "only this user's", NAME),
        Parameter("state", "only runs in this state", choice_of(STATES)),
        Parameter(
            "job_id",
            "only runs of this job, or of this array's tasks; the domain of the scheduler's server may be left out",
            NAME,
        ),
        Parameter("queue", "only of this queue or partition", NAME),
        Parameter("account", "only of this account", NAME),
        Parameter("application", "only jobs of this name, with or without the number of the run", NAME),
        Parameter(
            "exit_status",
            "only with this exit status",
            EXIT_STATUS,
        ),
        Parameter("node", "only on this node, as the log writes it", NAME),
        Parameter("longer_than_s", "only runs that ended after more than so many seconds", TIME),
        Parameter(
            "used_below",
            "only runs that used less than so many per cent of the requested memory",
            {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
        ),
        Parameter("profiled", "no: runs whose use is not known yet", choice_of(("yes", "no"))),
    ),
    span=SPAN,
)
JOBS = Route(
    "/api/v1/jobs",
    jobs,
    "Runs of jobs, last recorded first by default; with a span, those that ended in it",
    LISTING.parameters,
    own="user",
)
JOBS_CSV = replace_route(
    JOBS,
    path="/api/v1/jobs.csv",
    handler=jobs_csv,
    summary="The same page of runs as CSV",
    answer=str,
    media_type="text/csv",
)
JOB = Route(
    "/api/v1/job",
    job,
    "One job, by its id in the accounting log: its runs, their use, its nodes while it ran",
    (
        ITS_NAME,
        Parameter("cluster", "needed if several clusters have a job with this id", NAME),
        Parameter("points", "points per time series", {"type": "integer", "minimum": 1, "maximum": POINTS}),
    ),
    own="job",
)
FORECAST = Route(
    "/api/v1/job/forecast",
    job_forecast,
    "The forecast now of a waiting or running job, beside its forecasts at submission and start",
    (ITS_NAME, Parameter("cluster", "needed if several clusters have a job with this id", NAME)),
    own="job",
)
ROUTES = (JOBS, JOBS_CSV, JOB, FORECAST)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/jobs", endpoint="jobs")
    def show() -> AnyResponse:
        found = jobs()
        offered = {"states": STATES, "sorts": SORTS, "ranges": tuple(RANGES), "clusters": clusters_offered()}
        return page("jobs.html", found, JOBS, listing=LISTING, offered=offered, grouped=grouped(found))

    @pages.get("/jobs.csv", endpoint="jobs_csv")
    def table() -> Response:
        return jobs_csv()

    @pages.get("/job", endpoint="job")
    def show_one() -> AnyResponse:
        found = job()
        settled = all(run.state != "running" and run.profiled for run in found.runs)
        return page("job.html", found, JOB, settled=settled, bars=bars, resources=RESOURCE_OF)
