"""The gain of spreading a site's measured jobs over clusters, and of knowing their bandwidth."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sqlalchemy import Connection, and_, select

from jobsight_predictor.question import Question
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.communication import CommunicatingJobs, SyntheticWorkload
from jobsight_scheduler.coallocation.compared import WAYS, compared, variation
from jobsight_scheduler.workload.canonical import canonical, questions_of, scaled_to
from jobsight_scheduler.workload.swf import Trace
from jobsight_server.command_line.answers import print_account
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.command_line.trace_argument import open_trace, part_of
from jobsight_server.commands.simulate.clusters import clusters_with
from jobsight_server.ground.amounts import percent
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.site_machines import site_machines
from jobsight_server.queries.site_trace import SUBMITTED, ended, site_trace
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs as runs
from jobsight_server.storage.schema import profiles

Floats = NDArray[np.float64]

HALF_BPS = 25e6
"""Default of --half here: the time that jobs communicate is not measured."""


@dataclass(frozen=True, slots=True)
class SiteJobs:
    """All finished jobs in the order of submission; arrays of shape (jobs,).

    ``bandwidth_bps`` per processor and ``busy`` share of the processors, NaN where not measured. ``clusters`` are the
    site's, with the processors of each.
    """

    trace: Trace
    questions: list[Question]
    bandwidth_bps: Floats
    busy: Floats
    clusters: dict[str, int]


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
        jobs, dropped = _placeable(site, clusters, args.half or HALF_BPS, args.load)
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


def _placeable(
    site: SiteJobs, clusters: Clusters, half_bps: float, load: float | None
) -> tuple[SyntheticWorkload, int]:
    """Return the jobs that fit on all clusters together, and how many do not. A job without a measurement gets the
    median of its user's jobs, else of the site's.
    """
    workload = canonical(site.trace, clusters.total)
    if not len(workload):
        raise ValueError(f"none of {len(site.trace):,} jobs fits on {clusters.total} processors; give larger clusters")
    jobs = workload if load is None else scaled_to(workload, clusters.total, load)
    bandwidth = _filled(site)[jobs.row]
    work = CommunicatingJobs(jobs, bandwidth, bandwidth / (bandwidth + half_bps))
    nothing_stated = np.full(len(jobs), np.inf)
    questions = [site.questions[row] for row in jobs.row.tolist()]
    return SyntheticWorkload(work, nothing_stated, questions), jobs.counts["dropped"]


def _filled(site: SiteJobs) -> Floats:
    bandwidth = site.bandwidth_bps.copy()
    users = np.array([question.user or "" for question in site.questions])
    of_site = float(np.nanmedian(bandwidth))
    for user in np.unique(users[np.isnan(bandwidth)]):
        own = bandwidth[users == user]
        median = of_site if np.isnan(own).all() else float(np.nanmedian(own))
        bandwidth[(users == user) & np.isnan(bandwidth)] = median
    return bandwidth


def verdict(rows: list[dict[str, Any]]) -> str:
    """Return the rows' conclusion, in one sentence."""
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


def site_jobs(connection: Connection, part: Part) -> SiteJobs:
    """Return the jobs of a part of the database, all clusters as one site.

    Raises:
        UserError: no job has ended, or none has a known bandwidth.
    """
    trace = site_trace(connection, part)
    bandwidth, busy = (_measured(connection, part, metric) for metric in ("bandwidth", "cpu"))
    if np.isnan(bandwidth).all():
        raise UserError(f"none of the {len(trace):,} finished jobs has a measured bandwidth: are agents running?")
    # A job that ran longer than it requested was not cut off there.
    trace.columns["requested_s"] = np.maximum(trace["requested_s"], trace["run_s"])
    clusters: Counter[str] = Counter()
    for machine in site_machines(connection, part):
        clusters[machine.jobs[0].cluster] += int(machine.nodes.processors.sum())
    return SiteJobs(trace, questions_of(trace, np.arange(len(trace))), bandwidth, busy, dict(sorted(clusters.items())))


def _measured(connection: Connection, part: Part, metric: str) -> Floats:
    """Return a value for each job of the trace, NaN where it was not measured."""
    known = and_(profiles.c.run_id == runs.c.id, profiles.c.metric == metric)
    query = select(profiles.c.value).select_from(runs.outerjoin(profiles, known)).where(*ended(part))
    return np.array(connection.scalars(query.order_by(SUBMITTED, runs.c.id)).all(), dtype=np.float64)  # None is NaN
