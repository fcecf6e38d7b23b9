"""``jobsight coallocate --trace DATABASE``: what spreading jobs, and knowing their bandwidth, gains at this site."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.compared import AGAIN, WAYS, Variation, compared, variation
from jobsight_scheduler.coallocation.synthetic import SyntheticWorkload
from jobsight_scheduler.workload.communicating_jobs import CommunicatingJobs
from jobsight_scheduler.workload.load import scaled_to
from jobsight_server.amounts import percent
from jobsight_server.command_line.trace_argument import open_database_trace
from jobsight_server.errors import UserError
from jobsight_server.systems.simulations.commands.cluster_sizes import clusters_with
from jobsight_server.systems.simulations.site_communication import SiteJobs, site_jobs

HALF_BPS = 25e6
"""Default of --half here, as the share of time that jobs communicate is not measured."""

_OF_ONE_RUN = (
    *("placement", "bandwidth", "constant", "sharing", "theta", "bias", "noise", "silent", "job_spread"),
    *(
        "application_spread",
        "wrong_names",
        "seed",
        "synthetic",
        "validate",
        "schedule_out",
        "jobs_out",
        "state",
        "plot",
    ),
)


def compare_on_site(args: argparse.Namespace, defaults: argparse.Namespace) -> int:
    """Shows all placements on the jobs of the database ``args.database``; ``defaults`` are of a run without options."""
    given = [name for name in _OF_ONE_RUN if getattr(args, name) != getattr(defaults, name)]
    if args.trace is not None or given:
        name = f"--{given[0].replace('_', '-')}" if given else str(args.trace)
        raise UserError(f"{name}: --trace compares all placements; leave out {name} or --trace")
    try:
        with open_database_trace(args.database) as connection:
            if connection is None:
                raise UserError(f"--trace {args.database}: not a Jobsight database; give a trace without --trace")
            site = site_jobs(connection)
    except OSError as error:
        raise UserError(f"--trace {args.database}: cannot be read: {error.strerror or error}") from error
    try:
        sizes = args.clusters or tuple(site.clusters.values())
        if len(sizes) < 2:
            raise ValueError("one cluster: there is nothing to spread jobs over; give --clusters, such as 4x32")
        clusters = clusters_with(sizes, args.uplink)
        jobs, dropped = _placeable(site, clusters, args.half or HALF_BPS, args.load)
    except ValueError as wrong:
        raise UserError(str(wrong)) from wrong
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("placing", total=len((*WAYS, AGAIN) if args.ask_again else WAYS))
        rows = compared(jobs, clusters, lambda: progress.advance(task), ask_again=args.ask_again)
    account: dict[str, Any] = {
        "jobs": len(jobs.work.jobs),
        "dropped": dropped,
        "measured": int(np.isfinite(site.bandwidth_bps).sum()),
        "variation": asdict(variation(site.questions, site.bandwidth_bps, site.busy)),
        "clusters": list(clusters.processors),
        "uplink": list(clusters.uplink_bps),
        "half": args.half or HALF_BPS,
        "rows": rows,
        "verdict": verdict(rows),
    }
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        _show(account, Console())
    return 0


def _placeable(
    site: SiteJobs, clusters: Clusters, half_bps: float, load: float | None
) -> tuple[SyntheticWorkload, int]:
    """The jobs that fit on all clusters together, and how many do not. One that was not measured uses what its user's
    jobs use in the median, else the site's."""
    whole = site.workload
    kept = np.flatnonzero(whole.processors <= clusters.total)
    columns = ("submit_s", "run_s", "estimate_s", "processors", "row")
    jobs = replace(whole, **{name: getattr(whole, name)[kept] for name in columns})
    jobs = replace(jobs, submit_s=jobs.submit_s - jobs.submit_s[0]) if len(jobs) else jobs
    if load is not None:
        jobs = scaled_to(jobs, clusters.total, load)
    bandwidth = _filled(site)[kept]
    work = CommunicatingJobs(jobs, bandwidth, bandwidth / (bandwidth + half_bps))
    nothing_stated = np.full(len(jobs), np.inf)
    return SyntheticWorkload(work, nothing_stated, [site.questions[job] for job in kept]), len(whole) - len(kept)


def _filled(site: SiteJobs) -> np.ndarray[Any, np.dtype[np.float64]]:
    bandwidth = site.bandwidth_bps.copy()
    users = np.array([question.user or "" for question in site.questions])
    of_site = float(np.nanmedian(bandwidth))
    for user in np.unique(users[np.isnan(bandwidth)]):
        own = bandwidth[users == user]
        median = of_site if np.isnan(own).all() else float(np.nanmedian(own))
        bandwidth[(users == user) & np.isnan(bandwidth)] = median
    return bandwidth


def verdict(rows: list[dict[str, Any]]) -> str:
    """The rows' conclusion, in one sentence."""
    by_name = {row["placement"]: row["turnaround_percent"][0] for row in rows}
    constant = next(name for name in by_name if name.startswith("constant"))
    best = min(by_name, key=lambda name: (by_name[name], name))
    if by_name[best] > -1.0:
        return "Spreading jobs gains nothing here: keep each job on one cluster."
    if by_name["naive"] <= by_name[best] + 1.0:
        return "Bandwidth need not be known here: spread jobs wherever processors are free."
    if by_name[constant] <= by_name["application means"] + 1.0:
        return f"A {constant} per processor for every job is enough here; knowing more gains nothing."
    points = by_name[constant] - by_name["application means"]
    return f"Knowing the means of users' applications gains {points:.1f} points here over the best constant."


def _show(account: Mapping[str, Any], console: Console) -> None:
    found, share = Variation(**account["variation"]), account["measured"] / (account["jobs"] + account["dropped"])
    rates = ", ".join(f"{rate / 1e6:g}" for rate in dict.fromkeys(account["uplink"]))
    sizes = ", ".join(map(str, account["clusters"]))
    console.print(
        f"{account['jobs']:,} finished jobs on clusters of {sizes} processors with uplinks of {rates} Mb/s; bandwidth "
        f"measured of {percent(share)}, {account['dropped']:,} jobs too large and left out."
    )
    console.print(
        f"Bandwidth per processor: median {found.median_bps / 1e6:.3g} Mb/s. Applications typically differ from one "
        f"another by a factor of {_factor(found.over_applications)}, jobs of one by {_factor(found.over_jobs)}."
    )
    if found.busy_correlation is not None:
        more = "lower" if found.busy_correlation < 0.0 else "no lower"
        console.print(
            f"Processors are {more} in use where jobs move more (rank correlation {found.busy_correlation:+.2f})."
        )
    console.print(
        f"Assumed, not measured: jobs of {account['half'] / 1e6:g} Mb/s per processor communicate for half "
        "of their time, jobs of more for more of it (--half); uplinks carry what --uplink says."
    )
    table = Table(box=SIMPLE, padding=(0, 1))
    for column in ("placement", "turnaround", "95 % sure", "links full", "spread"):
        table.add_column(column, justify="left" if column == "placement" else "right", no_wrap=True)
    for row in account["rows"]:
        mean, low, high = row["turnaround_percent"]
        sure = "" if low is None else f"{low:+.1f} to {high:+.1f}"
        table.add_row(row["placement"], f"{mean:+.1f} %", sure, percent(row["saturated"], 1), percent(row["spread"], 1))
    console.print(table)
    console.print("Turnaround compared with none; interval over ten parts of the log.")
    console.print(account["verdict"], style="bold")


def _factor(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"
