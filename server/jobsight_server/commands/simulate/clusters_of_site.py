"""The gain of spreading a site's measured jobs over clusters, and of knowing their bandwidth."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.progress import Progress

from jobsight_scheduler.coallocation.compared import WAYS
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.command_line.trace_argument import open_trace, part_of
from jobsight_server.commands.simulate.clusters import clusters_with
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.clusters import HALF_BPS, Spreading, placeable, site_jobs, spreading


def run(args: argparse.Namespace) -> int:
    part, half_bps = part_of(args), args.half or HALF_BPS
    with open_trace(args.trace, part) as connection:
        assert connection is not None  # known to the caller
        site = site_jobs(connection, part)
    try:
        sizes = args.clusters or tuple(site.clusters.values())
        if len(sizes) < 2:
            raise ValueError("one cluster: there is nothing to spread jobs over; give --clusters, such as 4x32")
        clusters = clusters_with(sizes, args.uplink)
        placed = placeable(site, clusters, half_bps, args.load)
    except ValueError as wrong:
        raise UserError(str(wrong)) from wrong
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("placing", total=len(WAYS))
        found = spreading(site, placed, clusters, half_bps, lambda: progress.advance(task))
    print_account(args, found, _show)
    return 0


def _show(found: Spreading, console: Console) -> None:
    varies, share = found.variation, found.measured / (found.jobs + found.dropped)
    rates = ", ".join(f"{rate / 1e6:g}" for rate in dict.fromkeys(found.uplink))
    sizes = ", ".join(map(str, found.clusters))
    console.print(
        f"{found.jobs:,} finished jobs on clusters of {sizes} processors with uplinks of {rates} Mb/s; bandwidth "
        f"measured of {percent(share)}, {found.dropped:,} jobs too large and left out."
    )
    console.print(
        f"Bandwidth per processor: median {varies.median_bps / 1e6:.3g} Mb/s. Applications typically differ from one "
        f"another by a factor of {_factor(varies.over_applications)}, jobs of one by {_factor(varies.over_jobs)}."
    )
    if (correlation := varies.busy_correlation) is not None:
        more = "lower" if correlation < 0.0 else "no lower"
        console.print(f"Processors are {more} in use where jobs move more (rank correlation {correlation:+.2f}).")
    console.print(
        f"Assumed, not measured: jobs of {found.half / 1e6:g} Mb/s per processor communicate for half "
        "of their time, jobs of more for more of it (--half); uplinks carry what --uplink says."
    )
    table = table_of(["placement"], ("turnaround", "95 % sure", "links full", "spread"))
    for row in found.rows:
        mean, low, high = row.turnaround_percent
        sure = "" if low is None else f"{low:+.1f} to {high:+.1f}"
        table.add_row(row.placement, f"{mean:+.1f} %", sure, percent(row.saturated, 1), percent(row.spread, 1))
    console.print(table)
    console.print("Turnaround compared with none; interval over ten parts of the log.")
    console.print(found.verdict, style="bold")


def _factor(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"
