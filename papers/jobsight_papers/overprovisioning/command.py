"""The command of the over-provisioning experiment: memory requirements learned from feedback, on a trace."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from jobsight_papers.overprovisioning.cluster.cases import VARIANTS, MemoryCase
from jobsight_papers.overprovisioning.cluster.nodes import MIB, parse_classes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.groups import cycles, example_group, similarity
from jobsight_papers.overprovisioning.report import show
from jobsight_papers.overprovisioning.results import figure_8_fit, ratios
from jobsight_papers.overprovisioning.runs import CLASSES, SATURATED, published_cases, step_cases, with_second
from jobsight_papers.overprovisioning.source import JobSource, jobs_of, run_on, source_for, trace_of
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, give_out, refuse_out_of_range, run_all
from jobsight_papers.traces import named_trace
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.workload.canonical import LOAD_AT_MOST, offered_load
from jobsight_server.command_line.trace_argument import add_part
from jobsight_server.ground.errors import UserError

Task = tuple[str, MemoryCase, JobSource]
"""Each run with its purpose."""


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace``, LANL-CM5 by default, and the part of a database."""
    parser.add_argument(
        "--trace",
        default="LANL-CM5",
        metavar="TRACE",
        help="jobs with memory: Standard Workload Format, or a Jobsight database (file or URL) (default: LANL-CM5 "
        "in the directory JOBSIGHT_TRACES)",
    )
    add_part(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace(parser)
    parser.add_argument(
        "--classes",
        default=CLASSES,
        metavar="CLASSES",
        help=f"nodes by memory (default: {CLASSES})",
    )
    parser.add_argument(
        "--second-mb",
        nargs="+",
        type=float,
        metavar="MB",
        help="memory of the smaller nodes (default: as --classes has it)",
    )
    parser.add_argument("--policy", choices=tuple(MEMORY_POLICIES), default="fcfs", help="scheduling policy (fcfs)")
    parser.add_argument(
        "--loads",
        nargs="+",
        type=float,
        metavar="LOAD",
        help=f"offered loads (default: {SATURATED})",
    )
    parser.add_argument(
        "--estimators",
        "--estimator",
        nargs="+",
        choices=tuple(VARIANTS),
        metavar="NAME",
        help=f"estimators of a job's memory: {', '.join(VARIANTS)} (default: all)",
    )
    parser.add_argument(
        "--faulty", action="store_true", help="jobs that failed in the log look as if they had wanted memory"
    )
    parser.add_argument(
        "--steps", action="store_true", help="also compare alpha, beta and the next try at the restored estimate"
    )
    add_run_arguments(parser)
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    file = named_trace(args.trace, args)
    try:
        source = source_for(file, args.classes)
    except ValueError as error:
        raise UserError(f"--classes: {error}") from error
    try:
        jobs = jobs_of(source)
        offered_load(jobs.work, 1)  # raises if the load cannot be scaled
        tasks = list(_tasks(args, source))
    except ValueError as error:
        raise UserError(str(error)) from error
    try:
        finished = run_all("overprovisioning", task, tasks, args)
    except QueueTooLongError as error:
        raise UserError(str(error)) from error
    rows = [finished[key] for key in tasks if key[0] == "rows"]
    found = ratios(rows)
    groups = similarity(trace_of(source.file))
    example = example_group(jobs)
    account: dict[str, Any] = {
        "groups": groups["groups"],
        "jobs": len(jobs),
        "dropped": dict(jobs.work.dropped),
        "rows": rows,
        "ratios": found,
        "figure_8_fit": figure_8_fit(found, jobs),
        "similarity": groups,
        "cycles": [] if example is None else cycles(jobs, example, _powers(source)),
    }
    if args.steps:
        steps = [
            {"alpha": case.alpha, "beta": case.beta, "retry": case.retry} | finished[kind, case, of]
            for kind, case, of in tasks
            if kind == "steps"
        ]
        account["steps"] = sorted(steps, key=lambda row: (-row["utilisation"], row["failed_share"]))
    give_out(account, args, "jobsight_papers.overprovisioning.plot", show)
    return 0


def task(of: Task) -> dict[str, Any]:
    """Do one run; worker processes call it."""
    _, case, source = of
    return run_on(case, source)


def _tasks(args: argparse.Namespace, source: JobSource) -> Sequence[Task]:
    sizes, loads, estimators = args.second_mb, args.loads, args.estimators
    if any((sizes, loads, estimators, args.faulty)) or args.classes != CLASSES or args.policy != "fcfs":
        classes = [with_second(args.classes, size) for size in sizes] if sizes else [args.classes]
        chosen = product(classes, loads or [SATURATED], [args.policy], estimators or VARIANTS)
        cases = [MemoryCase(of, load, policy, name, faulty=args.faulty) for of, load, policy, name in chosen]
    else:
        cases = list(published_cases())
    tasks: list[Task] = [("rows", case, source) for case in cases]
    if args.steps:
        tasks += [("steps", case, source) for case in step_cases(replace(cases[0], estimator="none"))]
    return tasks


def _check(args: argparse.Namespace) -> None:
    refuse_out_of_range(("--loads", args.loads, all(0.0 < load <= LOAD_AT_MOST for load in args.loads or ())))


def _powers(source: JobSource) -> list[float]:
    """Return the capacities of a cluster with nodes of every half of the largest size: 32, 16, 8, ... MB."""
    largest = parse_classes(source.classes)[-1].memory_bytes / MIB
    return [largest / 2.0**power for power in range(5, -1, -1)]
