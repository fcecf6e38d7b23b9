"""Compares policies on one workload, job by job, and checks their schedules."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from jobsight_papers.runner import table_of
from jobsight_papers.schedules.chosen import POLICIES, choose_policy, rules_of
from jobsight_papers.schedules.lublin import lublin
from jobsight_papers.schedules.multifactor import PriorityWeights, priority_weights
from jobsight_papers.schedules.paired import differences
from jobsight_papers.schedules.validator import validate
from jobsight_scheduler.figures import schedule_figures
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.policies.chosen import ChosenPolicy
from jobsight_scheduler.prediction import PREDICTORS
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import JobTable
from jobsight_scheduler.table import table_of as schedule_of
from jobsight_scheduler.workload.canonical import canonical, questions_of, scaled_to
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.trace_argument import add_part
from jobsight_server.commands.simulate.workload import MachineWorkload, read_workload
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trace",
        nargs="?",
        metavar="TRACE",
        help="jobs in Standard Workload Format (plain or .gz), or a Jobsight database (file or URL)",
    )
    add_part(parser)
    parser.add_argument(
        "--synthetic", type=int, metavar="JOBS", help="without TRACE: jobs of the model of Lublin and Feitelson (2003)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="NUMBER", help="seed of the generated jobs (default: 0)")
    parser.add_argument("--processors", type=int, metavar="COUNT", help="processors (default: MaxProcs of the trace)")
    parser.add_argument(
        "--load", type=float, metavar="LOAD", help="scale the times between submissions to this offered load"
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        default=list(POLICIES),
        metavar="POLICY",
        help=f"{', '.join(POLICIES)} (default: all); easy++ and sjf with a run-time predictor as easy++:NAME, of "
        f"{', '.join(PREDICTORS)}. The others are compared with the first.",
    )
    weights = " ".join(f"{name.replace('_', '-')}={value:g}" for name, value in asdict(PriorityWeights()).items())
    parser.add_argument(
        "--priority", nargs="+", default=[], metavar="WEIGHT=NUMBER", help=f"multifactor's (default: {weights})"
    )
    parser.add_argument("--validate", action="store_true", help="check each schedule against the rules of its policy")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    weights = _weights(args.priority)
    policies = {name: _chosen(name, weights) for name in args.policies}
    given = _given(args)
    tables = {name: _simulated(given, policy) for name, policy in policies.items()}
    counts = given.counts
    first = next(iter(tables.values())).only(counts)
    rows = []
    for name, table in tables.items():
        row = {"policy": name, **schedule_figures(table, given.capacity, counts)}
        row |= differences(first, table.only(counts))
        if args.validate:
            broken = validate(table, given.capacity, rules_of(policies[name]))
            row |= {"broken_rules": len(broken), "first_broken": str(broken[0]) if broken else None}
        rows.append(row)
    account = {"trace": given.name, "processors": given.capacity, "jobs": int(counts.sum()), "rows": rows}
    print_account(args, account, _show)
    return int(any(row.get("broken_rules") for row in rows))


def _weights(given: Sequence[str]) -> PriorityWeights:
    named = {name: number for name, _, number in (text.partition("=") for text in given)}
    try:
        if len(named) < len(given):
            raise ValueError("give each weight once")
        return priority_weights({name: float(number) for name, number in named.items()})
    except ValueError as error:
        raise UserError(f"--priority {' '.join(given)[:100]}: {error}; give weights such as age=1000") from error


def _chosen(text: str, weights: PriorityWeights) -> ChosenPolicy:
    name, _, predictor = text.partition(":")
    if name not in POLICIES or (predictor and predictor not in PREDICTORS):
        raise UserError(f"--policies {text[:100]}: give {', '.join(POLICIES)}, or easy++:{next(iter(PREDICTORS))}")
    try:
        return choose_policy(name, predictor or None, weights)
    except ValueError as error:
        raise UserError(f"--policies {error}") from error


def _given(args: argparse.Namespace) -> MachineWorkload:
    if (args.trace is None) == (args.synthetic is None):
        raise UserError("give a trace, or --synthetic and --processors")
    if args.synthetic is None:
        return read_workload(args, args.processors)
    capacity = args.processors or 128
    try:
        trace = lublin(args.synthetic, capacity, args.seed)
        jobs = canonical(trace, capacity)
        jobs = jobs if args.load is None else scaled_to(jobs, capacity, args.load)
    except ValueError as error:
        raise UserError(f"--synthetic {args.synthetic}: {error}") from error
    return MachineWorkload("synthetic", trace, jobs, capacity)


def _simulated(given: MachineWorkload, policy: ChosenPolicy) -> JobTable:
    simulation = Simulation(given.workload, given.capacity, policy.make, questions_of(given.trace, given.workload.row))
    try:
        while not simulation.advance(100_000):
            time.sleep(0)
    except QueueTooLongError as error:
        raise UserError(f"{given.name}: {error}") from error
    return schedule_of(given.workload, simulation.start_s, given.trace.users)


def _show(account: Mapping[str, Any], console: Console) -> None:
    console.print(f"{account['trace']}: {account['jobs']:,} jobs on {account['processors']:,} processors")
    columns = ("policy", "mean wait, s", "difference", "slowdown", "difference", "in use")
    table = table_of("Policies", *columns, *(("broken",) if "broken_rules" in account["rows"][0] else ()))
    for row in account["rows"]:
        table.add_row(
            row["policy"],
            f"{row['mean_wait_s']:,.0f}",
            _interval(row["difference_wait_s"], 0),
            f"{row['mean_bounded_slowdown']:,.1f}",
            _interval(row["difference_bounded_slowdown"], 1),
            percent(row["useful_utilisation"], 1),
            *((f"{row['broken_rules']:,}",) if "broken_rules" in row else ()),
        )
    console.print(table)
    for row in account["rows"]:
        if row.get("first_broken"):
            console.print(f"{row['policy']}: {row['first_broken']}")
    console.print("slowdown: mean bounded slowdown; differences from the first, job by job, with 95 % confidence")


def _interval(found: Sequence[float | None], digits: int) -> str:
    mean, low, high = found
    if mean is None or low is None or high is None or low == high == 0.0:
        return ""
    return f"{mean:+,.{digits}f} ({low:+,.{digits}f} to {high:+,.{digits}f})"
