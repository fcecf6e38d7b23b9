"""``jobsight coallocate``: how a workload would have run spread over several clusters."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from jobsight_scheduler.coallocation.bandwidth_sources import CONSTANT_BPS, SOURCES, EstimateError, bandwidth_source
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.labels import LabelFaults
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.results import figures, job_table, link_history
from jobsight_scheduler.coallocation.scheduler import THETA, Scheduler
from jobsight_scheduler.coallocation.sharing import SHARINGS
from jobsight_scheduler.coallocation.synthetic import draw_communication
from jobsight_scheduler.comparison import differences
from jobsight_scheduler.figures import by_size, by_user
from jobsight_scheduler.table import JobTable
from jobsight_scheduler.validator import BrokenRule
from jobsight_scheduler.validator.spread_jobs import check
from jobsight_scheduler.workload.communication import Habits
from jobsight_scheduler.workload.load import scaled_to
from jobsight_server.amounts import percent
from jobsight_server.errors import UserError
from jobsight_server.systems.simulations.commands.cluster_sizes import cluster_sizes, clusters_with
from jobsight_server.systems.simulations.commands.coallocate_site import compare_on_site
from jobsight_server.systems.simulations.commands.run_simulation import carry_out
from jobsight_server.systems.simulations.commands.schedule_outputs import add_outputs, check_outputs, write_jobs
from jobsight_server.systems.simulations.commands.workload_arguments import add_workload, read_workload
from jobsight_server.systems.simulations.machine_workload import counted
from jobsight_server.systems.simulations.report import show, show_findings

RATE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([kMGT]?)", re.ASCII)
SETTINGS = (
    *("uplink", "placement", "bandwidth", "constant", "sharing", "theta", "bias", "noise", "silent"),
    *("job_spread", "application_spread", "half", "wrong_names", "seed"),
)
"""Options besides the clusters and the jobs that affect the schedule."""

SPREAD_AT_MOST = 10.0
"""Of a logarithm; beyond it, bandwidths overflow."""

SCALE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workload(parser)
    parser.add_argument(
        "--trace",
        dest="database",
        metavar="DATABASE",
        help="a Jobsight database (file or URL) instead of TRACE: all placements beside one another, on the site's own "
        "jobs and their measured bandwidth",
    )
    parser.add_argument(
        "--clusters",
        type=cluster_sizes,
        metavar="KxP",
        help="K clusters of P processors, or sizes such as 64,32,32 (default with --trace: the site's own)",
    )
    parser.add_argument(
        "--uplink",
        type=_rates,
        default=(1e9,),
        metavar="RATE,..",
        help="bits per second of each uplink, such as 100M or 1G, or one for each cluster: 100M,100M,1G (default: 1G)",
    )
    parser.add_argument(
        "--placement",
        choices=tuple(PLACEMENTS),
        default="none",
        help="how jobs are spread over clusters (default: none)",
    )
    parser.add_argument(
        "--bandwidth",
        choices=SOURCES,
        default=SOURCES[0],
        metavar="SOURCE",
        help=f"bandwidth source for --placement aware: {', '.join(SOURCES)} (default: {SOURCES[0]})",
    )
    parser.add_argument(
        "--constant",
        type=_rate,
        default=CONSTANT_BPS,
        metavar="RATE",
        help=f"bits per second per processor of every job for --bandwidth constant (default: {CONSTANT_BPS / 1e6:g}M)",
    )
    parser.add_argument(
        "--sharing",
        choices=tuple(SHARINGS),
        default="proportional",
        help="how jobs share a saturated link (default: proportional)",
    )
    parser.add_argument(
        "--theta",
        type=float,
        default=THETA,
        metavar="SHARE",
        help=f"share of an uplink that may be booked (default: {THETA})",
    )
    parser.add_argument(
        "--bias",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="bandwidth stated by users or the oracle, relative to the true one (default: 1)",
    )
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        metavar="SIGMA",
        help="standard deviation of the logarithm of the stated bandwidth (default: 0)",
    )
    parser.add_argument(
        "--silent",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of users who state no bandwidth; their jobs are not spread unless a forecast is known (default: 0)",
    )
    parser.add_argument(
        "--job-spread",
        type=float,
        default=Habits().job_spread,
        metavar="SIGMA",
        help="standard deviation of the logarithm of bandwidth over jobs of one application "
        f"(default: {Habits().job_spread})",
    )
    parser.add_argument(
        "--application-spread",
        type=float,
        default=Habits().application_spread,
        metavar="SIGMA",
        help=f"the same over applications (default: {Habits().application_spread})",
    )
    parser.add_argument(
        "--half",
        type=_rate,
        metavar="RATE",
        help="let the share of time in communication rise with the bandwidth per processor: half at this one, such as "
        "25M (default: drawn independently)",
    )
    parser.add_argument(
        "--wrong-names",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of jobs that carry the name of another application (default: 0)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="NUMBER",
        help="seed of the communication drawn for the jobs of the trace (default: 0)",
    )
    parser.add_argument(
        "--ask-again",
        action="store_true",
        help="book waiting jobs by their forecasts as of now, beside the same with those at submission: for "
        "--placement aware --bandwidth application-means, and with --trace",
    )
    parser.add_argument(
        "--validate", action="store_true", help="check the schedule: capacity, links and each job's work"
    )
    add_outputs(parser, "utilisation, queue, Gantt chart, slowdowns and links")


def run(args: argparse.Namespace) -> int:
    check_outputs(args)
    if args.database is not None:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        return compare_on_site(args, parser.parse_args([]))
    if args.clusters is None:
        raise UserError("which clusters? Give --clusters, such as 4x32")
    if args.ask_again and (args.placement, args.bandwidth) != ("aware", "application-means"):
        way = args.placement if args.placement != "aware" else f"--bandwidth {args.bandwidth}"
        raise UserError(
            f"--ask-again: {way} asks for no forecasts; give --placement aware --bandwidth application-means"
        )
    try:
        clusters = clusters_with(args.clusters, args.uplink)
        error = EstimateError(args.bias, args.noise, args.silent)
        faults = LabelFaults(wrong=args.wrong_names)
        for option, spread in (("job", args.job_spread), ("application", args.application_spread)):
            if not 0.0 <= spread <= SPREAD_AT_MOST:
                raise ValueError(f"--{option}-spread {spread}: give it from 0 to {SPREAD_AT_MOST:g}")
        if args.half is not None and not args.half > 0.0:
            raise ValueError("--half 0: every job would communicate all the time; give a rate such as 25M")
        if not args.theta > 0.0:
            raise ValueError(f"--theta {args.theta}: no link could be booked; give a share such as 0.8")
    except ValueError as wrong:
        raise UserError(str(wrong)) from wrong
    habits = Habits(job_spread=args.job_spread, application_spread=args.application_spread, half_bps=args.half)
    given = read_workload(args, clusters.total, load=None)
    try:
        jobs = given.workload if args.load is None else scaled_to(given.workload, clusters.total, args.load)
        drawn = draw_communication(given.trace, jobs, args.seed, habits, faults)
        sources = [
            bandwidth_source(args.bandwidth, drawn, error, args.seed, constant_bps=args.constant)
            for _ in range(1 + args.ask_again)
        ]
    except ValueError as wrong:
        raise UserError(f"{given.name}: {wrong}") from wrong
    make = partial(Scheduler, placement=PLACEMENTS[args.placement], theta=args.theta)
    began = time.process_time()
    simulation, *others = (
        CoSimulation(drawn.work, clusters, partial(make, bandwidth=source, ask_again=ask_again), SHARINGS[args.sharing])
        for source, ask_again in zip(sources, (args.ask_again, False), strict=False)
    )
    spent = time.process_time() - began
    settings = {name: getattr(args, name) for name in SETTINGS}
    settings |= {"clusters": list(args.clusters), "uplink": list(clusters.uplink_bps)}
    if args.ask_again:
        settings["ask_again"] = True
    took = carry_out("coallocate", simulation, args.placement, args.state, settings)
    if took is None:
        return 130
    spent += took
    table = job_table(simulation, given.trace["user"])
    account: dict[str, Any] = {
        "trace": given.name,
        "policy": f"aware by {args.bandwidth}" if args.placement == "aware" else args.placement,
        "predictor": None,
        "processors": clusters.total,
        **counted(given.trace, jobs),
        **settings,
        **figures(simulation, table),
        "cpu_s": spent,
        "jobs_per_cpu_s": len(jobs) / spent if spent else None,
        "by_size": by_size(table),
        "by_user": by_user(table),
    }
    for other in others:
        if carry_out("coallocate", other, args.placement, None, {}) is None:
            return 130
        beside = job_table(other, given.trace["user"])
        account["against"] = {args.placement: figures(other, beside) | differences(table, beside)}
    findings: list[BrokenRule] = []
    if args.validate:
        found = simulation.start_s, simulation.end_s, simulation.allocations
        findings = check(drawn.work, clusters, SHARINGS[args.sharing], *found)
        account["broken_rules"] = len(findings)
    write_jobs(args, table)
    if args.plot is not None:
        _draw(simulation, account, args.plot, table)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
        print(
            f"Spread: {percent(account['spread'], 1)} of jobs, {account['mean_stretch']:.2f} times as long as alone; "
            f"links saturated {percent(account['saturated'], 1)} of their time."
        )
        rate = account["jobs_per_hour"]
        print(
            f"Mean wait {account['mean_wait_s']:,.0f} s, mean turnaround {account['mean_turnaround_s']:,.0f} s"
            + ("." if rate is None else f"; {rate:,.1f} jobs an hour ended while jobs were submitted.")
        )
        for figure in account.get("against", {}).values():
            mean, low, high = figure["difference_turnaround_s"]
            print(
                f"With the forecasts at submission, mean turnaround {figure['mean_turnaround_s']:,.0f} s: "
                f"{mean:+,.0f} s ({low:+,.0f} to {high:+,.0f}, 95 % confidence)."
            )
    show_findings("coallocate", findings)
    return 1 if findings else 0


def _draw(simulation: CoSimulation, account: dict[str, Any], directory: Path, table: JobTable) -> None:
    from jobsight_server.systems.simulations.coallocation_plot import draw_links
    from jobsight_server.systems.simulations.plot import draw_simulation

    clusters = "x".join(map(str, (len(simulation.clusters.processors), simulation.clusters.largest)))
    title = f"{account['trace']}: {account['policy']} on {clusters}, uplinks of {_megabits(account['uplink'])}"
    draw_simulation(table, simulation.capacity, title, directory)
    draw_links(*link_history(simulation), simulation.now, title, directory / "links.svg")
    print(f"jobsight coallocate: plots written to {directory}", file=sys.stderr)


def _megabits(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate / 1e6:g}" for rate in dict.fromkeys(rates)) + " Mb/s"


def _rates(text: str) -> tuple[float, ...]:
    return tuple(_rate(part) for part in text.split(","))


def _rate(text: str) -> float:
    match = RATE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate in bits per second: give a number such as 100M or 1G")
    return float(match[1]) * SCALE[match[2]]
