"""``/api/v1/efficiency``: a job's use of its request. Users with a MUNGE credential see their own jobs."""

from __future__ import annotations

from flask import request

from jobsight_server.auth.munge import SCHEME
from jobsight_server.ground.answers import Record
from jobsight_server.ground.parameters import NAME, Parameter
from jobsight_server.queries.job_detail import RunEfficiency, run_efficiencies
from jobsight_server.web.kit.inputs import one_cluster, required_name
from jobsight_server.web.kit.routes import Route, context, not_found, reading, require_role

_ROLES = ("scheduler",)


class JobEfficiency(Record):
    """All runs of one job, or of all tasks of an array, oldest first; ``text`` is the same for a terminal."""

    cluster: str
    runs: list[RunEfficiency]
    text: str


def efficiency() -> JobEfficiency:
    from jobsight_server.web.efficiency_text import efficiency_text  # of tables for terminals, which load slowly

    user = _asking_user()
    here, job_id = context(), required_name("name")
    runs = run_efficiencies(reading(), here.answers, job_id, here.clock(), user, here.settings.accounting)
    cluster = one_cluster(list(dict.fromkeys(run.cluster for run in runs)), "job", job_id)
    runs = [run for run in runs if run.cluster == cluster]
    if not runs:
        raise not_found("job", job_id, cluster)
    return JobEfficiency(cluster=cluster, runs=runs, text=efficiency_text(runs))


def _asking_user() -> str | None:
    """Return the user whose jobs the request may see; None, with a token, for all."""
    header = request.headers.get("Authorization", "")
    if header.partition(" ")[0].lower() == SCHEME:
        return context().munge.user(header)
    person = require_role(_ROLES, "job")
    return person.name if person is not None and person.role == "user" else None


ROUTES = (
    Route(
        "/api/v1/efficiency",
        efficiency,
        "A job's use of its request, and what to request next time. Users send a MUNGE credential instead of "
        "a token (`Authorization: Munge CREDENTIAL`) and see their own jobs",
        (
            Parameter(
                "name", "the job's id, for an array all of its tasks, or a task such as 13_2", NAME, required=True
            ),
            Parameter("cluster", "needed if several clusters have a job with this id", NAME),
        ),
        roles=_ROLES,
        errors=(503,),
        checks_roles_itself=True,
        own="job",
    ),
)
