"""A site's measured jobs, spread over clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from jobsight_predictor.question import Question
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.communication import CommunicatingJobs, SyntheticWorkload
from jobsight_scheduler.coallocation.compared import PlacementFigures, Variation, compared, variation
from jobsight_scheduler.workload.canonical import canonical, questions_of, scaled_to
from jobsight_scheduler.workload.swf import PARTIAL, Trace
from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.machines import site_machines
from jobsight_server.replay.trace import runs_of_part
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.engine import rows_of
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


class Spreading(Record):
    """The gain of spreading ``jobs`` over clusters, with ``dropped`` ones too large; ``measured``: bandwidths.

    ``uplink`` in bit/s; jobs of the bandwidth ``half`` per processor communicate for half of their time.
    """

    jobs: int
    dropped: int
    measured: int
    variation: Variation
    clusters: list[int]
    uplink: list[float]
    half: float
    rows: list[PlacementFigures]
    verdict: str


def spreading(
    site: SiteJobs, placed: SyntheticWorkload, clusters: Clusters, half_bps: float, done: Callable[[], None]
) -> Spreading:
    """Compare the placements of the ``placed`` jobs of the site; ``done`` is called after each of ``WAYS``."""
    rows = compared(placed, clusters, done)
    return Spreading(
        jobs=len(placed.work.jobs),
        dropped=placed.work.jobs.counts["dropped"],
        measured=int(np.isfinite(site.bandwidth_bps).sum()),
        variation=variation(site.questions, site.bandwidth_bps, site.busy),
        clusters=list(clusters.processors),
        uplink=list(clusters.uplink_bps),
        half=half_bps,
        rows=rows,
        verdict=_verdict(rows),
    )


def placeable(site: SiteJobs, clusters: Clusters, half_bps: float, load: float | None) -> SyntheticWorkload:
    """Return the jobs that fit on all clusters together. A job without a measurement gets the median of its user's
    jobs, else of the site's.

    Raises:
        ValueError: no job fits, or an impossible load.
    """
    workload = canonical(site.trace, clusters.total)
    if not len(workload):
        raise ValueError(f"none of {len(site.trace):,} jobs fits on {clusters.total} processors; give larger clusters")
    jobs = workload if load is None else scaled_to(workload, clusters.total, load)
    bandwidth = _filled(site)[jobs.row]
    work = CommunicatingJobs(jobs, bandwidth, bandwidth / (bandwidth + half_bps))
    nothing_stated = np.full(len(jobs), np.inf)
    questions = [site.questions[row] for row in jobs.row.tolist()]
    return SyntheticWorkload(work, nothing_stated, questions)


def _filled(site: SiteJobs) -> Floats:
    bandwidth = site.bandwidth_bps.copy()
    users = np.array([question.user or "" for question in site.questions])
    of_site = float(np.nanmedian(bandwidth))
    for user in np.unique(users[np.isnan(bandwidth)]):
        own = bandwidth[users == user]
        median = of_site if np.isnan(own).all() else float(np.nanmedian(own))
        bandwidth[(users == user) & np.isnan(bandwidth)] = median
    return bandwidth


def _verdict(rows: list[PlacementFigures]) -> str:
    """Return the rows' conclusion, in one sentence."""
    by_name = {row.placement: row.turnaround_percent[0] for row in rows}
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


def site_jobs(connection: Connection, part: Part) -> SiteJobs:
    """Return the jobs of a part of the database, all clusters as one site.

    Raises:
        UserError: no job has ended, or none has a known bandwidth.
    """
    machines = site_machines(connection, part)
    found, runs, users = runs_of_part(connection, part)
    ended = found["status"] != PARTIAL
    found = {name: column[ended] for name, column in found.items()}
    found["submit_s"] = found["submit_s"] - found["submit_s"][0]
    trace, finished = Trace(found, users), np.array(runs)[ended].tolist()
    bandwidth, busy = (_measured(connection, finished, metric) for metric in ("bandwidth", "cpu"))
    if np.isnan(bandwidth).all():
        raise UserError(f"none of the {len(trace):,} finished jobs has a measured bandwidth: are agents running?")
    # A job that ran longer than it requested was not cut off there.
    trace.columns["requested_s"] = np.maximum(trace["requested_s"], trace["run_s"])
    clusters: Counter[str] = Counter()
    for machine in machines:
        clusters[machine.jobs[0].cluster] += int(machine.nodes.processors.sum())
    return SiteJobs(trace, questions_of(trace, np.arange(len(trace))), bandwidth, busy, dict(sorted(clusters.items())))


def _measured(connection: Connection, ids: list[int], metric: str) -> Floats:
    """Return a value for each of these runs, NaN where it was not measured."""
    query = select(profiles.c.run_id, profiles.c.value).where(profiles.c.metric == metric)
    found = {row.run_id: row.value for row in rows_of(connection, query, profiles.c.run_id, ids)}
    return np.array([found.get(run) for run in ids], dtype=np.float64)  # None is NaN
