"""The options of ``jobsight simulate`` that are of several clusters, and what it does with them."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from jobsight_scheduler.coallocation.believed import SOURCES, Error, source
from jobsight_scheduler.coallocation.drawn import draw
from jobsight_scheduler.coallocation.engine import CoSimulation
from jobsight_scheduler.coallocation.machine import Clusters
from jobsight_scheduler.coallocation.outcome import figures, job_table, link_history
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.scheduler import THETA, Scheduler
from jobsight_scheduler.coallocation.sharing import SHARINGS
from jobsight_scheduler.coallocation.validator import check
from jobsight_scheduler.metrics import by_size, by_user
from jobsight_scheduler.table import JobTable
from jobsight_scheduler.validator import Finding
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE
from jobsight_scheduler.workload.load import scaled_to
from jobsight_server.commands.schedules import show
from jobsight_server.commands.simulating import carry_out
from jobsight_server.commands.workload import counted, read_workload
from jobsight_server.errors import UserError

RATE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([kMGT]?)", re.ASCII)
CLUSTERS_AT_MOST = 1000
DEFAULTS: dict[str, Any] = {
    "uplink": 1e9,
    "placement": "none",
    "bandwidth": "predicted",
    "sharing": "proportional",
    "theta": THETA,
    "bias": 1.0,
    "noise": 0.0,
    "seed": 0,
}
SCALE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several clusters", "EASY-like backfilling around a placement.")
    group.add_argument(
        "--clusters", type=_clusters, metavar="KxP", help="K clusters of P processors, or sizes such as 64,32,32"
    )
    # Without defaults: what is given without --clusters would have no effect, and is refused.
    group.add_argument(
        "--uplink",
        type=_rate,
        metavar="RATE",
        help="bits per second of each uplink: 100M, 1G (default: 1G)",
    )
    group.add_argument("--placement", choices=tuple(PLACEMENTS), help="whether jobs are spread (default: none)")
    group.add_argument(
        "--bandwidth",
        choices=SOURCES,
        metavar="SOURCE",
        help=f"bandwidth source for --placement aware: {', '.join(SOURCES)} (default: predicted)",
    )
    group.add_argument(
        "--sharing", choices=tuple(SHARINGS), help="how jobs share a saturated link (default: proportional)"
    )
    group.add_argument(
        "--theta", type=float, metavar="SHARE", help=f"share of an uplink that may be booked (default: {THETA})"
    )
    group.add_argument(
        "--bias",
        type=float,
        metavar="FACTOR",
        help="bandwidth that users, or the oracle, state, over the true one (default: 1)",
    )
    group.add_argument(
        "--noise",
        type=float,
        metavar="SIGMA",
        help="standard deviation of the logarithm of what they state (default: 0)",
    )
    group.add_argument(
        "--seed",
        type=int,
        metavar="NUMBER",
        help="of the communication drawn for the jobs of the trace (default: 0)",
    )


def refuse_without_clusters(args: argparse.Namespace) -> None:
    """What has no meaning on a single machine.

    Raises:
        UserError: one of these options was given.
    """
    for name in DEFAULTS:
        if getattr(args, name) is not None:
            raise UserError(f"--{name} {getattr(args, name)} is of several clusters: give --clusters too, such as 4x32")


def run(
    args: argparse.Namespace,
    write: Callable[[argparse.Namespace, JobTable], None],
    tell: Callable[[list[Finding]], None],
) -> int:
    """Simulates ``args.trace`` on ``args.clusters``; exit status. ``write`` and ``tell`` are those of any schedule."""
    _refuse(args)
    for name, default in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    try:
        clusters = Clusters(args.clusters, (args.uplink,) * len(args.clusters))
        error = Error(args.bias, args.noise)
        if not args.theta > 0.0:
            raise ValueError(f"--theta {args.theta}: no link could be booked; give a share such as 0.8")
    except ValueError as wrong:
        raise UserError(str(wrong)) from wrong
    load, args.load, args.processors = args.load, None, clusters.largest
    given = read_workload(args)
    try:
        jobs = given.workload if load is None else scaled_to(given.workload, clusters.total, load)
        drawn = draw(given.trace, jobs, args.seed)
        believed = source(args.bandwidth, drawn, error, args.seed)
    except ValueError as wrong:
        raise UserError(f"{given.name}: {wrong}") from wrong
    began = time.process_time()
    simulation = CoSimulation(
        drawn.work,
        clusters,
        lambda requests: Scheduler(requests, PLACEMENTS[args.placement], believed, args.theta),
        SHARINGS[args.sharing],
    )
    spent = time.process_time() - began
    settings = {name: getattr(args, name) for name in DEFAULTS} | {"clusters": list(args.clusters)}
    took = carry_out(simulation, args.placement, args.state, settings)
    if took is None:
        return 130
    spent += took
    table = job_table(simulation, given.trace["user"])
    believes = f" by {args.bandwidth}" if args.placement == "aware" else ""
    policy = f"{args.placement}{believes}"
    account: dict[str, Any] = {
        "trace": given.name,
        "policy": policy,
        "predictor": None,
        "processors": clusters.total,
        **counted(given, jobs),
        **settings,
        **figures(simulation, table),
        "cpu_s": spent,
        "jobs_per_cpu_s": len(jobs) / spent if spent else None,
        "by_size": by_size(table),
        "by_user": by_user(table),
    }
    findings: list[Finding] = []
    if args.validate:
        found = simulation.start_s, simulation.end_s, simulation.allocations
        findings = check(drawn.work, clusters, SHARINGS[args.sharing], *found)
        account["broken_rules"] = len(findings)
    write(args, table)
    if args.plot is not None:
        _draw(simulation, account, args.plot, table)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
        print(
            f"Spread: {account['spread']:.1%} of jobs, {account['mean_stretch']:.2f} times as long as alone; "
            f"links saturated {account['saturated']:.1%} of their time."
        )
    tell(findings)
    return 1 if findings else 0


def _draw(simulation: CoSimulation, account: dict[str, Any], directory: Path, table: JobTable) -> None:
    from jobsight_server.plots.coallocation import draw_links  # takes half a second to load
    from jobsight_server.plots.simulation import draw_simulation

    clusters = "x".join(map(str, (len(simulation.clusters.processors), simulation.clusters.largest)))
    title = f"{account['trace']}: {account['policy']} on {clusters}, uplinks of {account['uplink'] / 1e6:g} Mb/s"
    draw_simulation(table, simulation.capacity, title, directory)
    draw_links(*link_history(simulation), simulation.now, title, directory / "links.svg")
    print(f"jobsight simulate: drawn to {directory}", file=sys.stderr)


def _refuse(args: argparse.Namespace) -> None:
    """What means something else, or nothing, on several clusters."""
    for flag, given in (
        ("--processors", args.processors),
        ("--predictor", args.predictor),
        ("--against", args.against),
        ("--check", args.check),
        ("--policy", args.policy != "easy"),
    ):
        if given:
            raise UserError(f"{flag} is of a single machine and does not go with --clusters: leave out one of them")


def _clusters(text: str) -> tuple[int, ...]:
    try:
        if "x" in text:
            count, size = map(int, text.split("x"))
            sizes = (size,) * min(count, CLUSTERS_AT_MOST + 1)
        else:
            sizes = tuple(map(int, text.split(",")))
    except ValueError:
        sizes = ()
    if len(sizes) > CLUSTERS_AT_MOST or sum(sizes) > LARGEST_MACHINE:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r}: give at most {CLUSTERS_AT_MOST:,} clusters of {LARGEST_MACHINE:,} processors in all"
        )
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} are no clusters: give 4x32, or sizes such as 64,32,32")
    return sizes


def _rate(text: str) -> float:
    match = RATE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate in bits per second: give a number such as 100M or 1G")
    return float(match[1]) * SCALE[match[2]]
