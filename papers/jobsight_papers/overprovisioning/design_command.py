"""The command for the memory sizes that suit the jobs of a log, within a budget."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from operator import itemgetter
from typing import Any

from rich.console import Console

from jobsight_papers.overprovisioning.cluster.cases import VARIANTS, MemoryCase
from jobsight_papers.overprovisioning.cluster.nodes import MIB, NodeClass, parse_classes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.cluster_design import Prices, designs, verifying_case
from jobsight_papers.overprovisioning.command import add_trace
from jobsight_papers.overprovisioning.runs import SATURATED
from jobsight_papers.overprovisioning.source import JobSource, jobs_of, run_on
from jobsight_papers.runner import Cells, add_run_arguments, refuse_out_of_range, run_all, show_table
from jobsight_papers.traces import named_trace
from jobsight_scheduler.workload.canonical import LOAD_AT_MOST, offered_load
from jobsight_server.command_line.answers import print_account
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError

Task = tuple[MemoryCase, JobSource]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace(parser)
    parser.add_argument(
        "--first", default="512x32M", metavar="NODES", help="nodes of the largest size, as 512x32M (the default)"
    )
    parser.add_argument(
        "--budget", type=float, metavar="PRICE", help="price of the cluster (default: twice that of the first nodes)"
    )
    parser.add_argument(
        "--price-node", type=float, default=1.0, metavar="PRICE", help="price of a node without memory (default: 1)"
    )
    parser.add_argument(
        "--price-mb", type=float, default=0.03, metavar="PRICE", help="price of a MB of memory (default: 0.03)"
    )
    parser.add_argument(
        "--sizes-mb", nargs="+", type=float, metavar="MB", help="sizes of the other nodes (default: each whole MB)"
    )
    parser.add_argument(
        "--estimator",
        choices=tuple(VARIANTS),
        default="jobsight",
        metavar="NAME",
        help=f"estimator of a job's memory: {', '.join(VARIANTS)} (default: jobsight)",
    )
    parser.add_argument("--policy", choices=tuple(MEMORY_POLICIES), default="fcfs", help="scheduling policy (fcfs)")
    parser.add_argument(
        "--load",
        type=float,
        default=SATURATED,
        metavar="LOAD",
        help=f"offered to twice the first nodes (default: {SATURATED})",
    )
    parser.add_argument(
        "--verify", type=int, default=5, metavar="COUNT", help="number of best designs to simulate (default: 5)"
    )
    add_run_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    first, source = _source(args)
    prices = Prices(args.price_node, args.price_mb)
    largest_mb = first.memory_bytes / MIB
    budget = args.budget if args.budget is not None else 2.0 * first.count * prices.of(largest_mb)
    sizes = args.sizes_mb or [float(size) for size in range(1, int(largest_mb) + 1)]
    try:
        jobs = jobs_of(source)
        offered_load(jobs.work, first.count)  # scaled below
        found = designs(jobs, first, budget, prices, sizes)
    except ValueError as error:
        raise UserError(str(error)) from error
    # For comparison: nodes of the largest size for the same money. Estimation gains nothing there.
    alike = [design for design in found if design.second_mb == largest_mb]
    verified = found[: args.verify] + [design for design in alike if design not in found[: args.verify]]
    tasks: list[Task] = [
        (verifying_case(design, args.estimator, args.policy, args.load, 2 * first.count), source) for design in verified
    ]
    finished = run_all("design-cluster", task, tasks, args)
    names = ("utilisation", "failed_share", "mean_slowdown", "mean_bounded_slowdown")
    simulated = [
        asdict(design)
        | {name: finished[key][name] for name in names}
        | {"busy_nodes": design.nodes * finished[key]["utilisation"]}
        for design, key in zip(verified, tasks, strict=True)
    ]
    simulated.sort(key=lambda row: -row["busy_nodes"])
    account: dict[str, Any] = {
        "budget": budget,
        "designs": [asdict(design) for design in found],
        "simulated": simulated,
        "best": simulated[0] if simulated else None,
    }
    print_account(args, account, _show)
    return 0


def task(of: Task) -> dict[str, Any]:
    """Do one run; worker processes call it."""
    return run_on(*of)


def _show(account: dict[str, Any], console: Console) -> None:
    cells: Cells = {
        "cluster": itemgetter("classes"),
        "cost": lambda row: f"{row['cost']:,.0f}",
        "helped": lambda row: f"{row['helped_processors']:,.0f}",
        "busy nodes": lambda row: f"{row['busy_nodes']:.0f}",
        "use": lambda row: percent(row["utilisation"], 1),
        "failed": lambda row: percent(row["failed_share"], 2),
        "slow": lambda row: f"{row['mean_bounded_slowdown']:,.0f}",
    }
    show_table(f"Simulated, of a budget of {account['budget']:,.0f}", cells, account["simulated"], console)
    console.print(
        "helped: processors of jobs that fit on the smaller nodes only by actual use; busy nodes: utilisation times "
        "nodes; slow: mean bounded slowdown."
    )


def _source(args: argparse.Namespace) -> tuple[NodeClass, JobSource]:
    refuse_out_of_range(
        ("--load", args.load, 0.0 < args.load <= LOAD_AT_MOST),
        ("--verify", args.verify, args.verify >= 1),
        ("--price-node", args.price_node, args.price_node > 0.0),
        ("--price-mb", args.price_mb, args.price_mb >= 0.0),
    )
    file = named_trace(args.trace, args)
    try:
        (first,) = parse_classes(args.first)
    except ValueError as error:
        raise UserError(f"--first {args.first}: give one kind of nodes, such as 512x32M") from error
    largest = f"{first.count}x{first.memory_bytes / MIB:g}M"
    # With as many smaller nodes: only jobs too large for any design are dropped.
    return first, JobSource(file, f"{largest},{first.count}x{first.memory_bytes / MIB / 2.0:g}M")
