"""On all cores or a Dask cluster; resumes where it was stopped."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

from jobsight_papers.coallocation.report import show
from jobsight_papers.coallocation.results import account, worth
from jobsight_papers.coallocation.runs import ExperimentCase, cases, run_case
from jobsight_papers.coallocation.scenarios import POLICIES, SCENARIOS
from jobsight_papers.finished import FinishedRuns
from jobsight_papers.outcome import add_outcome_arguments, check_outcome, give_out
from jobsight_server.command_line.progress import watched
from jobsight_server.command_line.workers import in_processes, on_dask
from jobsight_server.errors import UserError

TRACES = ("KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz")
CaseRuns = Generator[tuple[ExperimentCase, dict[str, Any]]]

SEEDS = 5

VERSION = 3
"""Version of the simulation: a new one reruns everything."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--traces",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="traces, Standard Workload Format (default: KTH-SP2 and SDSC-SP2 in the directory JOBSIGHT_TRACES)",
    )
    parser.add_argument(
        "--scenarios",
        nargs="+",
        choices=tuple(SCENARIOS),
        default=tuple(SCENARIOS),
        metavar="SCENARIO",
        help=f"{', '.join(map(repr, SCENARIOS))} (default: all)",
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=tuple(POLICIES),
        default=tuple(POLICIES),
        metavar="POLICY",
        help=f"policies compared with none: {', '.join(map(repr, POLICIES))} (default: all)",
    )
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, metavar="COUNT", help=f"draws of what jobs communicate (default: {SEEDS})"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, metavar="COUNT", help="first jobs of each trace to run (default: all)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, metavar="COUNT", help="worker processes (default: one per core)")
    where.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster, e.g. tcp://host:8786")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("coallocation.jsonl"),
        metavar="FILE",
        help="file of finished runs, one per line; runs already in it are skipped (default: coallocation.jsonl)",
    )
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    files = {file.name: file.resolve() for file in args.traces or _default_traces()}
    digests = {name: _digest(file) for name, file in files.items()}
    wanted = list(cases(list(files), args.seeds, args.scenarios, args.policies, args.jobs))
    finished = FinishedRuns(args.out)
    if finished.broken:
        print(f"{finished.broken} broken lines of {args.out} ignored", file=sys.stderr)
    keys = {case: (VERSION, digests[case.trace], *case.key) for case in wanted}
    todo = [case for case in wanted if keys[case] not in finished.figures]
    try:
        for case, figures in watched("coallocation", _runs(args, files, todo), len(wanted), len(wanted) - len(todo)):
            finished.add(keys[case], figures)
    except ValueError as error:  # too few jobs for a load
        raise UserError(f"{', '.join(files)}: {error}") from error
    except KeyboardInterrupt:
        done = sum(key in finished.figures for key in keys.values())
        print(
            f"interrupted with {done:,} of {len(wanted):,} runs finished; the same command resumes from {args.out}",
            file=sys.stderr,
        )
        return 130
    runs = [(case, finished.figures[key]) for case, key in keys.items()]
    result = {"runs": len(wanted), "jobs": args.jobs, "rows": account(runs), "worth": worth(runs)}
    give_out(result, args, "jobsight_papers.coallocation.plot", show)
    return 0


def task(files: dict[str, Path], case: ExperimentCase) -> dict[str, Any]:
    """Does one run; called in worker processes."""
    return run_case(case, files[case.trace])


def _runs(args: argparse.Namespace, files: dict[str, Path], todo: list[ExperimentCase]) -> CaseRuns:
    if args.dask is not None:
        return on_dask(partial(task, files), todo, args.dask)
    return in_processes(partial(task, files), todo, args.workers or os.cpu_count() or 1)


def _default_traces() -> list[Path]:
    directory = os.environ.get("JOBSIGHT_TRACES")
    if directory is None:
        raise UserError("no traces: give --traces FILE ..., or set JOBSIGHT_TRACES to a directory that has them")
    return [Path(directory) / name for name in TRACES]


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise UserError(f"--traces {file}: cannot be read: {error.strerror or error}") from error


def _check(args: argparse.Namespace) -> None:
    """Checks early what would otherwise fail only after minutes."""
    for flag, values, good in (
        ("--seeds", [args.seeds], args.seeds >= 1),
        ("--jobs", [args.jobs], args.jobs == 0 or args.jobs >= 2),
        ("--workers", [args.workers], args.workers is None or args.workers >= 1),
    ):
        if not good:
            raise UserError(f"{flag} {' '.join(map(str, values))}: give numbers above 0")
    if not args.out.parent.is_dir():
        raise UserError(f"--out {args.out}: there is no directory {args.out.parent}; create it first")
    check_outcome(args)
