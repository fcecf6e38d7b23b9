"""The command of the over-provisioning experiment: memory requirements learned from feedback, on a trace."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobsight_papers.overprovisioning.choice import field_sets, ranked, step_cases
from jobsight_papers.overprovisioning.cluster.cases import MemoryCase
from jobsight_papers.overprovisioning.cluster.nodes import MIB, parse_classes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.estimators.base import SIMILAR
from jobsight_papers.overprovisioning.fill_orders import ORDERS
from jobsight_papers.overprovisioning.groups import SIMILARITY_RANGE, cycles, example_group, similarity
from jobsight_papers.overprovisioning.report import show
from jobsight_papers.overprovisioning.results import failure_delay, figure_8_fit, ratios
from jobsight_papers.overprovisioning.runs import (
    CLASSES,
    PUBLISHED_ORDER,
    SATURATED,
    chosen_cases,
    published_cases,
    with_second,
)
from jobsight_papers.overprovisioning.source import JobSource, jobs_of, run_on, source_for, trace_of
from jobsight_papers.overprovisioning.variants import PAPER_VARIANTS
from jobsight_papers.runner import add_outcome_arguments, add_run_arguments, check_outcome, check_run, give_out, run_all
from jobsight_papers.traces import trace_file
from jobsight_predictor.question import FIELDS
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.workload.canonical import LOAD_AT_MOST, offered_load
from jobsight_server.command_line.trace_argument import add_part
from jobsight_server.ground.errors import UserError

TRACE = "LANL-CM5-1994-4.1-cln.swf.gz"
Task = tuple[str, MemoryCase, JobSource]
"""Each run with its purpose."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="TRACE",
        help="jobs with memory: Standard Workload Format, or a Jobsight database (file or URL) (default: LANL-CM5 "
        "in the directory JOBSIGHT_TRACES)",
    )
    add_part(parser)
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
    parser.add_argument(
        "--orders",
        nargs="+",
        choices=tuple(ORDERS),
        metavar="ORDER",
        help=f"which nodes to fill first: {', '.join(ORDERS)} (default: {PUBLISHED_ORDER})",
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
        choices=tuple(PAPER_VARIANTS),
        metavar="NAME",
        help=f"estimators of a job's memory: {', '.join(PAPER_VARIANTS)} (default: all)",
    )
    parser.add_argument(
        "--group-by",
        nargs="+",
        choices=FIELDS,
        default=list(SIMILAR),
        metavar="FIELD",
        help=f"fields that similar jobs share, of {', '.join(FIELDS)} (default: {' '.join(SIMILAR)})",
    )
    parser.add_argument(
        "--similarity-range",
        type=float,
        default=SIMILARITY_RANGE,
        metavar="RATIO",
        help=f"largest ratio of maximum to minimum use at which jobs count as alike (default: {SIMILARITY_RANGE})",
    )
    parser.add_argument(
        "--raw", action="store_true", help="processors as used and run times beyond the requested time, as published"
    )
    parser.add_argument(
        "--steps", action="store_true", help="also compare alpha, beta and the next try at the restored estimate"
    )
    parser.add_argument("--search-groups", action="store_true", help="also find the fields that gain the most")
    add_run_arguments(parser)
    add_outcome_arguments(parser)


def run(args: argparse.Namespace) -> int:
    _check(args)
    try:
        source = source_for(memory_trace(args), args.classes, args.raw, args.group_by)
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
    groups = similarity(trace_of(source.file), source.fields, args.similarity_range)
    example = example_group(jobs)
    account: dict[str, Any] = {
        "groups": groups["groups"],
        "jobs": len(jobs),
        "dropped": dict(jobs.work.dropped),
        "rows": rows,
        "ratios": found,
        "figure_8_fit": figure_8_fit(found, jobs),
        "failure_delay": failure_delay(rows, [finished[key] for key in tasks if key[0] == "at once"]),
        "similarity": groups,
        "cycles": [] if example is None else cycles(jobs, example, _powers(source)),
    }
    if args.steps:
        account["steps"] = ranked(
            [
                {"alpha": case.alpha, "beta": case.beta, "retry": case.retry} | finished[kind, case, of]
                for kind, case, of in tasks
                if kind == "steps"
            ]
        )
    if args.search_groups:
        account["group_fields"] = ranked(
            [{"fields": of.fields} | finished[kind, case, of] for kind, case, of in tasks if kind == "fields"]
        )
    give_out(account, args, "jobsight_papers.overprovisioning.plot", show)
    return 0


def task(of: Task) -> dict[str, Any]:
    """Do one run; worker processes call it."""
    _, case, source = of
    return run_on(case, source)


def _tasks(args: argparse.Namespace, source: JobSource) -> Sequence[Task]:
    sizes = args.second_mb
    is_chosen = any(value is not None for value in (sizes, args.orders, args.loads, args.estimators))
    if is_chosen or args.classes != CLASSES or args.policy != "fcfs":
        cases = list(
            chosen_cases(
                [args.classes] if sizes is None else [with_second(args.classes, size) for size in sizes],
                args.orders or [PUBLISHED_ORDER],
                args.policy,
                args.loads or [SATURATED],
                args.estimators or list(PAPER_VARIANTS),
            )
        )
    else:
        cases = list(published_cases())
    first = MemoryCase(cases[0].classes, cases[0].load, args.policy, cases[0].order)
    tasks: list[Task] = [("rows", case, source) for case in cases]
    if not is_chosen:
        tasks += [
            ("at once", replace(case, failures_cost=False), source)
            for case in cases
            if case.estimator not in ("none", "oracle") and replace(case, estimator=first.estimator) == first
        ]
    if args.steps:
        tasks += [("steps", case, source) for case in step_cases(first)]
    if args.search_groups:
        by = replace(first, estimator="successive-approximation")
        tasks += [
            ("fields", by, JobSource(source.file, source.classes, source.raw, fields)) for fields in field_sets(source)
        ]
    return tasks


def _check(args: argparse.Namespace) -> None:
    for flag, values, good in (
        ("--loads", args.loads, all(0.0 < load <= LOAD_AT_MOST for load in args.loads or ())),
        ("--similarity-range", [args.similarity_range], args.similarity_range >= 1.0),
    ):
        if not good:
            raise UserError(f"{flag} {' '.join(map(str, values))}: out of range; see --help for an example")
    check_run(args)
    check_outcome(args)


def memory_trace(args: argparse.Namespace) -> Path:
    """Return the file of ``--trace``, or LANL-CM5.

    Raises:
        UserError: neither is there, or it cannot be read.
    """
    if args.trace is None and "JOBSIGHT_TRACES" not in os.environ:
        raise UserError("no trace: give --trace, or set JOBSIGHT_TRACES to a directory that has LANL-CM5")
    return trace_file(args.trace or f"{os.environ['JOBSIGHT_TRACES']}/{TRACE}", args)


def _powers(source: JobSource) -> list[float]:
    """Return the capacities of a cluster with nodes of every half of the largest size: 32, 16, 8, ... MB."""
    largest = parse_classes(source.classes)[-1].memory_bytes / MIB
    return [largest / 2.0**power for power in range(5, -1, -1)]
