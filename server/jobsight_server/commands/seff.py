"""``jobsight seff``: a job's use compared with its request, straight from the database."""

from __future__ import annotations

import argparse
import time

from jobsight_server.command_line.answers import print_json, reading
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.job_detail import RunEfficiency, run_efficiencies
from jobsight_server.storage.clusters import chosen
from jobsight_server.web.efficiency_text import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    what = "its id, 4711, for an array all of its tasks, or one task: 13_2"
    parser.add_argument("jobs", metavar="JOB", nargs="+", help=what)
    parser.add_argument("--cluster", metavar="NAME", help="needed if several clusters have a job with this id")
    parser.add_argument("--json", action="store_true", help="print JSON, in SI units")


def run(args: argparse.Namespace) -> int:
    sources = settings_of(args).accounting
    with reading(args) as (connection, reader):
        found = [
            of_one_cluster(run_efficiencies(connection, reader, job, time.time(), sources=sources), job, args.cluster)
            for job in args.jobs
        ]
    if args.json:
        print_json([run for runs in found for run in runs])
        return 0
    console = Terminal()
    for number, runs in enumerate(found):
        if number:
            console.print()
        show(runs, console)
    return 0


def of_one_cluster(runs: list[RunEfficiency], job_id: str, cluster: str | None) -> list[RunEfficiency]:
    """Return the runs on ``cluster``, or on the only one with the job.

    Raises:
        UserError: there are none, or on several clusters.
    """
    known = list(dict.fromkeys(run.cluster for run in runs))
    if not known:
        raise UserError(
            f"no run of a job {job_id!r} is known: check the id. Jobs are known once their log has been read, by "
            "`jobsight import LOG` or the server"
        )
    chosen_one = chosen(cluster, known, f"clusters with job {job_id!r}")
    return [run for run in runs if run.cluster == chosen_one]
