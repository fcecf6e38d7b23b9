"""Simulation of a workload spread over several clusters."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jobsight_scheduler.coallocation.bandwidth_sources import bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.communication import Habits, draw_communication
from jobsight_scheduler.coallocation.cosimulation import CoSimulation, figures, job_table, link_history
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_server.commands.simulate.report import carry_out, check_outputs, draw_to, give_out, of_groups
from jobsight_server.commands.simulate.workload import counted, read_workload
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError

SETTINGS = ("placement", "bandwidth", "constant", "half", "seed")
"""Options besides the clusters and the jobs that affect the schedule."""


def run(args: argparse.Namespace) -> int:
    check_outputs(args)
    if not args.clusters:  # own
        raise UserError("--clusters own: only a database knows the site's own clusters; give sizes such as 4x32")
    try:
        clusters = clusters_with(args.clusters, args.uplink)
        if args.half is not None and not args.half > 0.0:
            raise ValueError("--half 0: every job would communicate all the time; give a rate such as 25M")
    except ValueError as wrong:
        raise UserError(str(wrong)) from wrong
    given = read_workload(args, clusters.total)
    drawn = draw_communication(given.trace, given.workload, args.seed, Habits(half_bps=args.half))
    source = bandwidth_source(args.bandwidth, drawn, args.constant)
    make = partial(Scheduler, placement=PLACEMENTS[args.placement], bandwidth=source)
    began = time.process_time()
    simulation = CoSimulation(drawn.work, clusters, make)
    spent = time.process_time() - began
    settings = {name: getattr(args, name) for name in SETTINGS}
    settings |= {"clusters": list(args.clusters), "uplink": list(clusters.uplink_bps)}
    spent += carry_out(simulation, args.placement, len(given.workload))
    table = job_table(simulation, given.trace.users)
    account: dict[str, Any] = {
        "trace": given.name,
        "policy": f"aware by {args.bandwidth}" if args.placement == "aware" else args.placement,
        "predictor": None,
        "processors": clusters.total,
        **counted(given.trace, given.workload),
        **settings,
        **figures(simulation, table),
        **of_groups(table, spent),
    }
    sizes = "x".join(map(str, (len(clusters.processors), clusters.largest)))
    rates = ", ".join(f"{rate / 1e6:g}" for rate in dict.fromkeys(clusters.uplink_bps))
    title = f"{given.name}: {account['policy']} on {sizes}, uplinks of {rates} Mb/s"
    if draw_to(args, table, clusters.total, title):
        from jobsight_server.commands.simulate.plot import draw_links

        draw_links(*link_history(simulation), simulation.now, title, args.plot / "links.svg")
    give_out(args, account, table, _more(account))
    return 0


def _more(account: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"Spread: {percent(account['spread'], 1)} of jobs, {account['mean_stretch']:.2f} times as long as alone; "
        f"links saturated {percent(account['saturated'], 1)} of their time."
    )
    rate = account["jobs_per_hour"]
    yield (
        f"Mean wait {account['mean_wait_s']:,.0f} s, mean turnaround {account['mean_turnaround_s']:,.0f} s"
        + ("." if rate is None else f"; {rate:,.1f} jobs an hour ended while jobs were submitted.")
    )


def clusters_with(sizes: tuple[int, ...], uplinks_bps: Sequence[float]) -> Clusters:
    """Return clusters of these sizes, with one rate for all uplinks or one for each.

    Raises:
        ValueError: the number of rates is wrong, or a rate is not above 0.
    """
    if len(uplinks_bps) not in (1, len(sizes)):
        raise ValueError(f"--uplink has {len(uplinks_bps)} rates for {len(sizes)} clusters: give one, or one for each")
    return Clusters(sizes, tuple(uplinks_bps) if len(uplinks_bps) > 1 else tuple(uplinks_bps) * len(sizes))
