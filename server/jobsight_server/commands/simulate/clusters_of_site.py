"""The gain of spreading a site's measured jobs over clusters, and of knowing their bandwidth."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from jobsight_scheduler.coallocation.compared import WAYS, compared, variation
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.command_line.trace_argument import open_trace, part_of
from jobsight_server.commands.simulate.clusters import clusters_with
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.clusters import HALF_BPS, placeable, site_jobs, verdict


def run(args: argparse.Namespace) -> int:
    part = part_of(args)
    with open_trace(args.trace, part) as connection:
        assert connection is not None  # known to the caller
        site = site_jobs(connection, part)
    try:
        sizes = args.clusters or tuple(site.clusters.values())
        if len(sizes) < 2:
            raise ValueError("one cluster: there is nothing to spread jobs over; give --clusters, such as 4x32")
        clusters = clusters_with(sizes, args.uplink)
        jobs, dropped = placeable(site, clusters, args.half or HALF_BPS, args.load)
    except ValueError as wrong:
        raise UserError(str(wrong)) from wrong
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("placing", total=len(WAYS))
        rows = compared(jobs, clusters, lambda: progress.advance(task))
    account: dict[str, Any] = {
        "jobs": len(jobs.work.jobs),
        "dropped": dropped,
        "measured": int(np.isfinite(site.bandwidth_bps).sum()),
        "variation": variation(site.questions, site.bandwidth_bps, site.busy),
        "clusters": list(clusters.processors),
        "uplink": list(clusters.uplink_bps),
        "half": args.half or HALF_BPS,
        "rows": rows,
        "verdict": verdict(rows),
    }
    print_account(args, account, _show)
    return 0


def _show(account: Mapping[str, Any], console: Console) -> None:
    found, share = account["variation"], account["measured"] / (account["jobs"] + account["dropped"])
    rates = ", ".join(f"{rate / 1e6:g}" for rate in dict.fromkeys(account["uplink"]))
    sizes = ", ".join(map(str, account["clusters"]))
    console.print(
        f"{account['jobs']:,} finished jobs on clusters of {sizes} processors with uplinks of {rates} Mb/s; bandwidth "
        f"measured of {percent(share)}, {account['dropped']:,} jobs too large and left out."
    )
    console.print(
        f"Bandwidth per processor: median {found['median_bps'] / 1e6:.3g} Mb/s. Applications typically differ from one "
        f"another by a factor of {_factor(found['over_applications'])}, jobs of one by {_factor(found['over_jobs'])}."
    )
    if (correlation := found["busy_correlation"]) is not None:
        more = "lower" if correlation < 0.0 else "no lower"
        console.print(f"Processors are {more} in use where jobs move more (rank correlation {correlation:+.2f}).")
    console.print(
        f"Assumed, not measured: jobs of {account['half'] / 1e6:g} Mb/s per processor communicate for half "
        "of their time, jobs of more for more of it (--half); uplinks carry what --uplink says."
    )
    table = table_of(["placement"], ("turnaround", "95 % sure", "links full", "spread"))
    for row in account["rows"]:
        mean, low, high = row["turnaround_percent"]
        sure = "" if low is None else f"{low:+.1f} to {high:+.1f}"
        table.add_row(row["placement"], f"{mean:+.1f} %", sure, percent(row["saturated"], 1), percent(row["spread"], 1))
    console.print(table)
    console.print("Turnaround compared with none; interval over ten parts of the log.")
    console.print(account["verdict"], style="bold")


def _factor(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"
