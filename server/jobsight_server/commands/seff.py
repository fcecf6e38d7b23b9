"""``jobsight seff``: what a finished job used of what it asked for, straight from the database."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection

from jobsight_server.command_line.arguments import LEARNING, add_settings, open_existing, settings_of
from jobsight_server.errors import UserError
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.queries.jobs import Job, RunDetail, job_clusters, job_detail
from jobsight_server.record import Record
from jobsight_server.storage.clusters import listed
from jobsight_server.web.units import RESOURCE_TITLES, percent, resource_value, utc

_NOTE = (
    "Next time: the reservation recommended now for such a job; - where nothing is known or it is the request itself. "
    "Used processors are those busy on average, bandwidth is the mean."
)
_ARRAY_TASK = re.compile(r"[0-9]{1,18}_[0-9]{1,18}").fullmatch
_FAILURES = {"memory": "ran out of memory", "time": "exceeded its time limit"}


class RunEfficiency(Record):
    """A run, and what it used of what it asked for; of one that has not ended, nothing yet."""

    cluster: str
    job_id: str
    user: str
    name: str | None
    start: float
    end: float | None
    state: str
    exit_status: int | None
    failure: str | None
    efficiency: list[Efficiency]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database", *LEARNING)
    parser.add_argument("job", metavar="JOB", help="its id, as in the accounting log")
    parser.add_argument("--cluster", metavar="NAME", help="needed if several clusters have a job with this id")
    parser.add_argument("--json", action="store_true", help="print JSON, in SI units")


def run(args: argparse.Namespace) -> int:
    engine = open_existing(args, "read")
    reader = AnswerReader(engine, forecast_config(settings_of(args)))
    try:
        with engine.connect() as connection:
            job = _job(connection, reader, args.job, args.cluster)
    finally:
        reader.close()
        engine.dispose()
    if args.json:
        runs = [
            RunEfficiency(**{field: getattr(run, field) for field in RunEfficiency.__struct_fields__})
            for run in job.runs
        ]
        print(msgspec.json.format(msgspec.json.encode(runs), indent=2).decode())
    else:
        show(job, Console())
    return 0


def _job(connection: Connection, reader: AnswerReader, job_id: str, cluster: str | None) -> Job:
    known = job_clusters(connection, job_id)
    if not known:
        raise UserError(_unknown(job_id))
    if cluster is None and len(known) > 1:
        raise UserError(f"job {job_id!r} is known on {listed(known)}; give --cluster NAME")
    if cluster is not None and cluster not in known:
        raise UserError(f"no job {job_id!r} on cluster {cluster!r}; it is known on {listed(known)}")
    found = job_detail(connection, reader, cluster or known[0], job_id, time.time())
    assert found is not None
    return found


def _unknown(job_id: str) -> str:
    if _ARRAY_TASK(job_id):
        return (
            f"no job {job_id!r}: the accounting log gives each task of an array an id of its own; "
            f"sacct -j {job_id} -X -o JobIDRaw shows it"
        )
    # Jobs without a run are not stored.
    return f"no run of a job {job_id!r}: it never started, or the accounting log has it by another id"


def show(job: Job, console: Console) -> None:
    """A table for each run, and the reasons for what is missing."""
    for number, run in enumerate(job.runs, 1):
        # As Text, because a job may be named like one of rich's markup tags.
        console.print(Text(_title(job, run, number)))
        if not run.efficiency:
            console.print(f"It has not ended ({run.state}): nothing to compare yet.")
            continue
        console.print(_table(run.efficiency))
        for entry in run.efficiency:
            for remark in remarks(entry):
                console.print(Text(f"{RESOURCE_TITLES[entry.resource]}: {remark}."))
    if any(run.efficiency for run in job.runs):
        console.print(_NOTE)


def _title(job: Job, run: RunDetail, number: int) -> str:
    which = f"Job {job.job_id} on {job.cluster}" + (f", run {number} of {len(job.runs)}" if len(job.runs) > 1 else "")
    ended = "" if run.end is None else f" to {utc(run.end)}"
    outcome = "" if run.exit_status is None else f", exit status {run.exit_status}"
    failure = "" if run.failure is None else f" ({_FAILURES[run.failure]})"
    return f"{which}: {run.name or 'without a name'} of {run.user}, {utc(run.start)}{ended} UTC{outcome}{failure}"


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
    """Why something is missing or no share is given, and how far the rest can be relied on."""
    found = [] if entry.reason is None else [entry.reason]
    if entry.ask_next is None and (entry.efficiency or 0.0) > 1.0:
        found.append("it used more than it asked for; how much such jobs need is not known yet")
    return [*found, "its nodes were shared; split by the processors held"] if entry.apportioned else found


def _dash(text: str) -> str:
    """Tables on terminals have a plain dash."""
    return "-" if text == "–" else text
