"""The gain in waiting time of reserving the memory that jobs need, on nodes that differ in memory."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text
from sqlalchemy import Connection, select

from jobsight_scheduler.memory.cases import VARIANTS, MemoryCase, run_case
from jobsight_scheduler.memory.jobs import MemoryJobs, jobs_on
from jobsight_scheduler.memory.nodes import MIB, parse_classes
from jobsight_scheduler.memory.simulation import MEMORY_POLICIES, Asked
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.workload.canonical import offered_load
from jobsight_server.accounting.amounts import percent
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.trace_argument import cluster_of, open_trace, part_of, read_trace
from jobsight_server.command_line.workers import in_processes, watched
from jobsight_server.storage.errors import UserError
from jobsight_server.storage.schema import nodes

ASKED: dict[Asked, str] = {"submission": "(kept)", "group": "", "all": "(all)"}
"""Times of estimating waiting jobs, as named in tables."""
WITHOUT_OPTION: tuple[Asked, ...] = ("group",)
_DIGITS = 2

Row = Mapping[str, Any]


def run(args: argparse.Namespace) -> int:
    if args.workers is not None and args.workers < 1:
        raise UserError(f"--workers {args.workers}: give 1 or more")
    if args.policy not in MEMORY_POLICIES:
        raise UserError(f"--policy {args.policy}: --memory takes {', '.join(MEMORY_POLICIES)}")
    if args.ask_again and not any(VARIANTS[name].learns for name in args.estimators):
        able = ", ".join(name for name, variant in VARIANTS.items() if variant.learns)
        raise UserError(
            f"--ask-again: {', '.join(args.estimators)}: no estimate changes while jobs wait; add one of {able}"
        )
    rows = _rows(args, *_jobs_and_nodes(args))
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows, Console())
    return 0


def _jobs_and_nodes(args: argparse.Namespace) -> tuple[MemoryJobs, str]:
    """Return the jobs that the nodes can run, and the nodes by memory.

    Raises:
        UserError: there are no such jobs, or no such nodes.
    """
    if args.trace is None:
        raise UserError("--memory: give a trace of the Standard Workload Format, or a database")
    part = part_of(args)
    with open_trace(args.trace, part) as connection:
        classes = args.classes or (connection and node_classes(connection, cluster_of(connection, part)))
    if not classes:
        raise UserError(f"{args.trace} has no nodes: give --classes, such as 512x32M,512x24M")
    trace, name = read_trace(args.trace, part, one_cluster=True)
    try:
        return jobs_on(trace, classes, name), classes
    except ValueError as error:
        raise UserError(str(error)) from error


def node_classes(connection: Connection, cluster: str) -> str:
    """Return the processors by memory in MB, such as ``512x32M,512x24M``. A request is per processor, so a node of 8
    processors counts as 8 of an eighth of its memory, rounded up to two digits: nodes of one model differ by a little.

    Raises:
        UserError: no agent has reported a node of the cluster with its memory.
    """
    columns = (nodes.c.cpus, nodes.c.memory_total_bytes)
    known = connection.execute(
        select(*columns).where(nodes.c.cluster == cluster, nodes.c.memory_total_bytes > 0, nodes.c.cpus > 0)
    )
    processors: Counter[float] = Counter()
    for cpus, memory in known:
        processors[_rounded_up(memory / cpus / MIB)] += cpus
    if not processors:
        raise UserError(f"no node of {cluster!r} with known memory; give --classes, such as 512x32M,512x24M")
    return ",".join(f"{count}x{size:g}M" for size, count in sorted(processors.items(), reverse=True))


def _rounded_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return math.ceil(value / unit - 1e-9) * unit


def show(rows: Sequence[Row], console: Console) -> None:
    """Show the runs by nodes, fill order and policy, and the waiting time that the freed memory saves."""
    without = {machine_of(row): row["utilisation"] for row in rows if row["estimator"] == "none"}
    for (classes, order, policy, _), same in groupby(rows, key=lambda row: (*machine_of(row)[:3], "")):
        title = Text(f"{classes}, {order}, {policy}", "bold")
        table = table_of(["estimator"], ("load", "use", "gain", "failed", "lowered", "wait"), title)
        for row in same:
            beside = without.get(machine_of(row)) if row["estimator"] != "none" else None
            table.add_row(
                f"{row['estimator']} {ASKED[row['asked']]}".strip(),
                f"{row['load']:g}",
                percent(row["utilisation"], 1),
                f"{row['utilisation'] / beside:.2f}" if beside else "",
                percent(row["failed_share"], 2),
                percent(row["lowered_share"], 1),
                f"{row['mean_wait_s'] / 3600.0:,.1f}",
            )
        console.print(table)
    console.print(
        "use: utilisation; gain: of utilisation, over no estimation; failed: of attempts, for want of memory; lowered: "
        "jobs that finished on less than they requested; wait: mean wait in hours."
    )
    if any(row["asked"] != "group" for row in rows):
        console.print(
            "kept: estimated at the submission only; all: again whenever any job has ended, not only one of the group."
        )
    _show_worth(rows, console)


def machine_of(row: Row) -> tuple[Any, ...]:
    """Return the key of runs that are compared with one another."""
    return row["classes"], row["order"], row["policy"], row["load"]


def _rows(args: argparse.Namespace, jobs: MemoryJobs, classes: str) -> list[dict[str, Any]]:
    try:
        nodes_in_all = sum(entry.count for entry in parse_classes(classes))
        load = offered_load(jobs.work, nodes_in_all) if args.load is None else args.load
        cases = [
            MemoryCase(classes, load, args.policy, estimator=name, asked=asked)
            for name in args.estimators
            for asked in (ASKED if args.ask_again and VARIANTS[name].learns else WITHOUT_OPTION)
        ]
        runs = in_processes(partial(run_case, given=jobs), cases, min(args.workers or os.cpu_count() or 1, len(cases)))
        found = dict(watched("memory", runs, len(cases)))
    except (ValueError, QueueTooLongError) as error:
        raise UserError(str(error)) from error
    return [found[case] for case in cases]


def _show_worth(rows: Sequence[Row], console: Console) -> None:
    """Show the waiting time that the freed memory saves, on the first machine."""
    first = {
        row["estimator"]: row for row in rows if machine_of(row) == machine_of(rows[0]) and row["asked"] == "group"
    }
    if {"none", "jobsight"} <= first.keys() and (asked := first["none"]["mean_wait_s"]):
        given = first["jobsight"]["mean_wait_s"]
        console.print(
            f"With their requests, jobs wait {asked / 3600.0:,.1f} hours on average; with memory by jobsight, "
            f"{given / 3600.0:,.1f} ({percent(abs(1.0 - given / asked))} {'less' if given <= asked else 'more'})."
        )
