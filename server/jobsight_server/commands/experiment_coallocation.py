"""``jobsight experiment coallocation``: on all cores or a Dask cluster; resumes where it was stopped."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

from jobsight_scheduler.experiments.coallocation_results import account, claims
from jobsight_scheduler.experiments.coallocation_runs import (
    BLOCKS,
    CLUSTERS,
    JOBS,
    LOADS,
    UPLINKS_MBPS,
    ExperimentCase,
    cases,
    run_case,
)
from jobsight_scheduler.experiments.coallocation_variants import COMPARED
from jobsight_scheduler.experiments.coallocation_worth import worth
from jobsight_server.command_line.cluster_sizes import cluster_sizes
from jobsight_server.errors import UserError
from jobsight_server.experiments.finished import FinishedRuns
from jobsight_server.experiments.outcome import add_outcome_arguments, check_outcome, give_out
from jobsight_server.experiments.progress import watched
from jobsight_server.experiments.workers import in_processes, on_dask
from jobsight_server.reports.coallocation import show

TRACES = ("KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz")
CaseRuns = Generator[tuple[ExperimentCase, dict[str, Any]]]

VERSION = 2
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
        "--clusters",
        type=cluster_sizes,
        default=CLUSTERS,
        metavar="KxP",
        help="K clusters of P processors, or sizes such as 64,32,32 (default: 4x32)",
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=tuple(COMPARED),
        default=tuple(COMPARED),
        metavar="POLICY",
        help=f"policies compared with none: {', '.join(COMPARED)} (default: all)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=BLOCKS,
        metavar="COUNT",
        help=f"runs per case, each on another block of the trace: blocks do not overlap (default: {BLOCKS})",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=JOBS,
        metavar="COUNT",
        help=f"jobs per run, at most a whole block; 0 for the whole trace in each run (default: {JOBS})",
    )
    parser.add_argument(
        "--uplinks",
        nargs="+",
        type=float,
        default=UPLINKS_MBPS,
        metavar="MBPS",
        help="megabits per second of an uplink (default: 100 300 1000)",
    )
    parser.add_argument(
        "--loads",
        nargs="+",
        type=float,
        default=LOADS,
        metavar="LOAD",
        help=f"offered loads (default: {' '.join(map(str, LOADS))})",
    )
    parser.add_argument(
        "--no-sensitivity",
        action="store_true",
        help="skip the runs with wrong estimates and names, other constants and single forecasters",
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
    swept = args.uplinks, args.loads, args.jobs, not args.no_sensitivity, args.clusters, args.policies
    wanted = list(cases(list(files), args.seeds, *swept))
    finished = FinishedRuns(args.out)
    if finished.broken:
        print(f"jobsight experiment: {finished.broken} broken lines of {args.out} ignored", file=sys.stderr)
    keys = {case: (VERSION, digests[case.trace], *case.key) for case in wanted}
    todo = [case for case in wanted if keys[case] not in finished.figures]
    try:
        for case, figures in watched("coallocation", _runs(args, files, todo), len(wanted), len(wanted) - len(todo)):
            finished.add(keys[case], figures)
    except ValueError as error:  # a block that cannot be simulated at this load
        raise UserError(f"{', '.join(files)}: {error}") from error
    except KeyboardInterrupt:
        done = sum(key in finished.figures for key in keys.values())
        print(
            f"jobsight experiment: interrupted with {done:,} of {len(wanted):,} runs finished; the same command "
            f"resumes from {args.out}",
            file=sys.stderr,
        )
        return 130
    runs = [(case, finished.figures[key]) for case, key in keys.items()]
    rows = account(runs)
    result: dict[str, Any] = {
        "runs": len(wanted),
        "jobs": args.jobs,
        "clusters": list(args.clusters),
        "rows": rows,
        "claims": claims(rows),
        "worth": worth(runs),
    }
    give_out(result, args, "jobsight_server.plots.coallocation", show)
    return 0


def task(files: dict[str, Path], case: ExperimentCase) -> dict[str, Any]:
    """One run, in any process."""
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
    """Checks now what would otherwise fail after minutes."""
    for flag, values, good in (
        ("--seeds", [args.seeds], args.seeds >= 1),
        ("--jobs", [args.jobs], args.jobs == 0 or args.jobs >= 2),
        ("--workers", [args.workers], args.workers is None or args.workers >= 1),
        ("--uplinks", args.uplinks, all(0.0 < uplink < float("inf") for uplink in args.uplinks)),
        ("--loads", args.loads, all(0.0 < load < float("inf") for load in args.loads)),
    ):
        if not good:
            raise UserError(f"{flag} {' '.join(map(str, values))}: give numbers above 0")
    if not args.out.parent.is_dir():
        raise UserError(f"--out {args.out}: there is no directory {args.out.parent}; create it first")
    check_outcome(args)
