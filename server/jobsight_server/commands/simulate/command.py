"""``jobsight simulate``: its options, their valid combinations, and the choice of the simulation."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from jobsight_scheduler.coallocation.bandwidth_sources import CONSTANT_BPS, SOURCES
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.policies.chosen import POLICIES
from jobsight_scheduler.prediction import PREDICTORS
from jobsight_scheduler.table import SCHEDULE
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE
from jobsight_server.command_line.trace_argument import add_part, open_trace
from jobsight_server.ground.errors import UserError

CLUSTERS_AT_MOST = 1000
RATE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([kMGT]?)", re.ASCII)
SCALE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
OWN: tuple[int, ...] = ()
"""``--clusters own``."""

_OUTPUT = {"schedule_out", "jobs_out", "plot"}
_SPREADING = {"placement", "bandwidth", "constant", "seed"}
OPTIONS_OF = {
    "one machine": {"load", "processors", "policy", "predictor", *_OUTPUT},
    "--clusters": {"load", "clusters", "uplink", "half", *_SPREADING, *_OUTPUT},
    "--clusters on a database": {"load", "clusters", "uplink", "half"},
    "--memory": {"memory", "classes", "processors", "plot"},
}
"""Options of each simulation, besides those of all."""
EVERYWHERE = {"trace", "cluster", "since", "until", "json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "\n       ".join(
        f"%(prog)s {way}"
        for way in ("DATABASE", "TRACE [--policy NAME] ...", "TRACE --clusters KxP ...", "TRACE --memory ...")
    )
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="jobs in Standard Workload Format (plain or .gz), or a Jobsight database (file or URL), whose finished "
        "jobs are taken",
    )
    add_part(parser)
    parser.add_argument(
        "--load",
        type=float,
        metavar="LOAD",
        help="scale the times between submissions to this offered load, such as 0.8",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_machine(parser.add_argument_group("one machine"))
    _add_clusters(parser.add_argument_group("several clusters"))
    _add_memory(parser.add_argument_group("nodes that differ in memory"))
    _add_output(parser.add_argument_group("output, of one machine and of several clusters"))


def run(args: argparse.Namespace) -> int:
    from jobsight_server.commands.simulate import clusters, clusters_of_site, machine, site_report

    given = _given(args)
    is_database = _is_database(args.trace)
    if args.memory or (is_database and given <= OPTIONS_OF["--memory"] | EVERYWHERE):
        simulation, begin = "--memory", site_report.run
    elif args.clusters is not None:
        simulation, begin = "--clusters", clusters_of_site.run if is_database else clusters.run
    else:
        simulation, begin = "one machine", machine.run
    if simulation == "--clusters" and is_database:
        simulation = "--clusters on a database"
    for name in given - OPTIONS_OF[simulation] - EVERYWHERE:
        others = " or ".join(other for other, options in OPTIONS_OF.items() if name in options)
        option = f"--{name.replace('_', '-')}"
        raise UserError(f"{option} does not go with {simulation}, but with {others}: leave out one of them")
    args.policy = args.policy or "easy"
    return begin(args)


def _is_database(trace: str) -> bool:
    with open_trace(trace) as connection:
        return connection is not None


def _given(args: argparse.Namespace) -> set[str]:
    """Return the options that are not at their defaults."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return {name for name, default in vars(parser.parse_args([args.trace])).items() if getattr(args, name) != default}


def _add_machine(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--processors",
        type=int,
        metavar="COUNT",
        help="processors (default: MaxProcs of the trace; those of the site, or enough for 99 %% of the time)",
    )
    group.add_argument(
        "--policy",
        choices=tuple(POLICIES),
        metavar="NAME",
        help=f"scheduling policy: {', '.join(POLICIES)} (default: easy)",
    )
    predicting = " and ".join(
        f"{name} (by default {entry.default_predictor})" if entry.default_predictor else name
        for name, entry in POLICIES.items()
        if entry.takes_predictor
    )
    group.add_argument(
        "--predictor",
        choices=tuple(PREDICTORS),
        metavar="NAME",
        help=f"run-time predictor for {predicting}: {', '.join(PREDICTORS)}; last-two is the mean of the user's last "
        "two jobs",
    )


def _add_clusters(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--clusters",
        type=cluster_sizes,
        metavar="KxP",
        help="spread jobs over K clusters of P processors, or over sizes such as 64,32,32; of a database, all "
        "placements are compared on the measured bandwidth of its jobs, and `own` means the site's own clusters",
    )
    group.add_argument(
        "--uplink",
        type=_rates,
        default=(1e9,),
        metavar="RATE,..",
        help="bits per second of each uplink, such as 100M or 1G, or one for each cluster: 100M,100M,1G (default: 1G)",
    )
    group.add_argument(
        "--placement",
        choices=tuple(PLACEMENTS),
        default="none",
        help="placement of jobs on clusters (default: none)",
    )
    group.add_argument(
        "--bandwidth",
        choices=SOURCES,
        default=SOURCES[0],
        metavar="SOURCE",
        help=f"bandwidth source for --placement aware: {', '.join(SOURCES)} (default: {SOURCES[0]})",
    )
    group.add_argument(
        "--constant",
        type=_rate,
        default=CONSTANT_BPS,
        metavar="RATE",
        help=f"bits per second per processor of every job for --bandwidth constant (default: {CONSTANT_BPS / 1e6:g}M)",
    )
    group.add_argument(
        "--half",
        type=_rate,
        metavar="RATE",
        help="communication takes more time at a higher bandwidth per processor: half of it at this rate, such as 25M "
        "(default: drawn independently; 25M on a database)",
    )
    group.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="NUMBER",
        help="seed of the communication drawn for the jobs of the trace (default: 0)",
    )


def _add_memory(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--memory",
        action="store_true",
        help="compare the recorded waiting times with those by predicted run times and recommended memory, over the "
        "last 90 days (the default for a database without other options)",
    )
    group.add_argument(
        "--classes",
        metavar="CLASSES",
        help="processors by memory, such as 512x32M,512x1.5G (default: the nodes of the site, where known)",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--schedule-out", type=Path, metavar="FILE.csv", help=f"write the columns {', '.join(SCHEDULE)}")
    group.add_argument("--jobs-out", type=Path, metavar="FILE.csv", help="write a table of all jobs to this file")
    group.add_argument(
        "--plot",
        type=Path,
        metavar="DIR",
        help="draw utilisation, queue, Gantt chart and slowdowns, and links of clusters, to this directory",
    )


def cluster_sizes(text: str) -> tuple[int, ...]:
    """Return the processors of each cluster, of ``4x32`` or ``64,32,32``; ``OWN`` for ``own``.

    Raises:
        argparse.ArgumentTypeError: something else, or more than can be simulated.
    """
    if text == "own":
        return OWN
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
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} is not a list of clusters: give 4x32, sizes such as 64,32,32, or `own` with a database"
        )
    return sizes


def _rates(text: str) -> tuple[float, ...]:
    return tuple(_rate(part) for part in text.split(","))


def _rate(text: str) -> float:
    match = RATE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} is not a rate in bits per second: give a number such as 100M or 1G"
        )
    return float(match[1]) * SCALE[match[2]]
