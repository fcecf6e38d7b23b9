"""``/api/v1/efficiency``: a job's use of its request. Users with a MUNGE credential see their own jobs."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from flask import request
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobsight_server.auth.munge import SCHEME
from jobsight_server.forecasts.record import Record
from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.queries.job_detail import RunEfficiency, run_efficiencies
from jobsight_server.web.kit.inputs import one_cluster, required_name
from jobsight_server.web.kit.routes import NAME, Parameter, Route, context, not_found, require_role
from jobsight_server.web.kit.units import RESOURCE_TITLES, percent, resource_value, utc

WIDTH = 100

_NOTE = (
    "Next time: the reservation recommended now for such a job; - where nothing is known or it is the request itself. "
    "Used processors are those busy on average, bandwidth is the mean."
)
_FAILURES = {"memory": "ran out of memory", "time": "exceeded its time limit"}


def efficiency_text(runs: Sequence[RunEfficiency]) -> str:
    """Return the text that ``show`` prints, without colours."""
    file = StringIO()
    show(runs, Console(file=file, width=WIDTH, color_system=None))
    return file.getvalue()


def show(runs: Sequence[RunEfficiency], console: Console) -> None:
    """Print what to request next, a table for each run of one job, and the reasons for gaps."""
    if advised := [run.advice for run in runs if run.advice]:
        console.print(Text(advised[-1]))
    for number, run in enumerate(runs, 1):
        # As Text, because a job may be named like one of rich's markup tags.
        console.print(Text(_title(run, number, len(runs))))
        if not run.efficiency:
            console.print(f"It has not ended ({run.state}): nothing to compare yet.")
            continue
        console.print(_table(run.efficiency))
        for entry in run.efficiency:
            for remark in remarks(entry):
                console.print(Text(f"{RESOURCE_TITLES[entry.resource]}: {remark}."))
    if any(run.efficiency for run in runs):
        console.print(_NOTE)


def _title(run: RunEfficiency, number: int, count: int) -> str:
    which = f"Job {run.job_id} on {run.cluster}" + (f", run {number} of {count}" if count > 1 else "")
    began = "not started" if run.start is None else utc(run.start)
    ended = "" if run.end is None else f" to {utc(run.end)}"
    outcome = "" if run.exit_status is None else f", exit status {run.exit_status}"
    failure = "" if run.failure is None else f" ({_FAILURES[run.failure]})"
    return f"{which}: {run.name or 'without a name'} of {run.user}, {began}{ended} UTC{outcome}{failure}"


def _table(found: Sequence[Efficiency]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("whole job", no_wrap=True)
    for name in ("asked for", "used", "efficiency", "next time"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in found:
        used = "not measured" if entry.used is None else resource_value(entry.used, entry.resource)
        table.add_row(
            RESOURCE_TITLES[entry.resource],
            _dash(resource_value(entry.requested, entry.resource)),
            f"at least {used}" if entry.at_least and entry.used is not None else used,
            _dash(percent(entry.efficiency)),
            _dash(resource_value(entry.ask_next, entry.resource)),
        )
    return table


def remarks(entry: Efficiency) -> list[str]:
    """Return why values or shares are missing, and how reliable the others are."""
    found = [] if entry.reason is None else [entry.reason]
    if entry.ask_next is None and (entry.efficiency or 0.0) > 1.0:
        found.append("it used more than it asked for; the need of similar jobs is not known yet")
    if entry.resource == "gpus" and entry.reason is None:
        found.append(f"held {entry.requested:g}, busy {entry.efficiency:.2f} on average")
    return [*found, "its nodes were shared; split by the processors held"] if entry.apportioned else found


def _dash(text: str) -> str:
    """Return the text with plain dashes, for tables on terminals."""
    return "-" if text == "–" else text


_ROLES = ("scheduler",)


class JobEfficiency(Record):
    """All runs of one job, oldest first; ``text`` is the same for a terminal."""

    cluster: str
    runs: list[RunEfficiency]
    text: str


def efficiency() -> JobEfficiency:
    user = _asking_user()
    here, job_id = context(), required_name("name")
    with here.read_engine.connect() as connection:
        runs = run_efficiencies(connection, here.answers, job_id, user)
    cluster = one_cluster(list(dict.fromkeys(run.cluster for run in runs)), "job")
    if cluster is None:
        raise not_found("job", job_id, None)
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
            Parameter("name", "the job's id, or a task of an array such as 13_2", NAME, required=True),
            Parameter("cluster", "needed if several clusters have a job with this id", NAME),
        ),
        roles=_ROLES,
        errors=(503,),
        checks_roles_itself=True,
        own="job",
    ),
)
