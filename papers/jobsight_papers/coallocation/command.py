"""The command of the co-allocation experiment: on all cores or a Dask cluster, resumed where it stopped."""

from __future__ import annotations

import argparse
import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from jobsight_papers.coallocation.report import show
from jobsight_papers.coallocation.results import account, worth
from jobsight_papers.coallocation.runs import ExperimentCase, cases, run_case
from jobsight_papers.coallocation.scenarios import POLICIES, SCENARIOS
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, give_out, refuse_out_of_range, run_all
from jobsight_papers.traces import named_trace
from jobsight_server.command_line.trace_argument import add_part
from jobsight_server.ground.errors import UserError

TRACES = ("KTH-SP2", "SDSC-SP2")

SEEDS = 5

VERSION = 5
"""Version of the simulation: a new one reruns everything."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--traces",
        nargs="+",
        default=TRACES,
        metavar="TRACE",
        help="Standard Workload Format, or Jobsight databases (file or URL) (default: KTH-SP2 and SDSC-SP2 in the "
        "directory JOBSIGHT_TRACES)",
    )
    add_part(parser)
    parser.add_argument(
        "--scenarios",
        nargs="+",
        choices=tuple(SCENARIOS),
        default=tuple(SCENARIOS),
        metavar="SCENARIO",
        help=f"{', '.join(map(repr, SCENARIOS))} (default: all)".replace("%", "%%"),
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=tuple(POLICIES),
        default=tuple(POLICIES),
        metavar="POLICY",
        help=f"policies compared with none: {', '.join(map(repr, POLICIES))} (default: all)".replace("%", "%%"),
    )
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, metavar="COUNT", help=f"draws of the jobs' communication (default: {SEEDS})"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, metavar="COUNT", help="first jobs of each trace to run (default: all)"
    )
    add_run_arguments(parser, Path("coallocation.jsonl"))
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    files = {file.name: file for file in (named_trace(name, args) for name in args.traces)}
    digests = {name: _digest(file) for name, file in files.items()}
    wanted = list(cases(list(files), args.seeds, args.scenarios, args.policies, args.jobs))
    try:
        finished = run_all(
            "coallocation", partial(task, files), wanted, args, lambda case: (VERSION, digests[case.trace], *case.key)
        )
    except ValueError as error:  # too few jobs for a load
        raise UserError(f"{', '.join(files)}: {error}") from error
    runs = [(case, finished[case]) for case in wanted]
    result = {"runs": len(wanted), "jobs": args.jobs, "rows": account(runs), "worth": worth(runs)}
    give_out(result, args, "jobsight_papers.coallocation.plot", show)
    return 0


def task(files: dict[str, Path], case: ExperimentCase) -> dict[str, Any]:
    """Do one run; worker processes call it."""
    return run_case(case, files[case.trace])


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise UserError(f"--traces {file}: cannot be read: {error.strerror or error}") from error


def _check(args: argparse.Namespace) -> None:
    """Check now what would otherwise fail after minutes."""
    refuse_out_of_range(
        ("--seeds", args.seeds, args.seeds >= 1), ("--jobs", args.jobs, args.jobs == 0 or args.jobs >= 2)
    )
