"""The event loop for several clusters, whose spread jobs slow each other down; and the figures of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats
from jobsight_scheduler.coallocation.clusters import (
    Allocation,
    Clusters,
    LinkDemand,
    demand,
    proportional,
    saturation,
)
from jobsight_scheduler.coallocation.communication import CommunicatingJobs
from jobsight_scheduler.coallocation.scheduler import NEVER, ClusterRequests, Scheduler, SpreadStart
from jobsight_scheduler.figures import schedule_figures
from jobsight_scheduler.table import JobTable, table_of


@dataclass(slots=True)
class Flow:
    """A running job that uses links: its remaining work, and its speed.

    Speed is ``1 / ((1 - share) + share c)``, where c is the slowdown of communication.
    """

    demand: LinkDemand
    share: float
    left_s: float
    since_s: float
    speed: float = 1.0
    fastest: float = 0.0
    version: int = 1


class CoSimulation:
    """A run of ``work`` on ``clusters`` under the scheduler from ``make_scheduler``.

    The scheduler sees only the requests; when a job ends, it gets the measured use. At one instant submissions precede
    ends, and ends follow the order of the starts. A job counts as ended only when it has, since a slowed one may
    outlive its request.
    """

    def __init__(
        self,
        work: CommunicatingJobs,
        clusters: Clusters,
        make_scheduler: Callable[[ClusterRequests], Scheduler],
    ) -> None:
        jobs = work.jobs
        self.work = work
        self.clusters = clusters
        self.scheduler = make_scheduler(ClusterRequests(clusters, jobs.processors.tolist(), jobs.estimate_s.tolist()))
        self._submit = [*jobs.submit_s.tolist(), NEVER]
        self._run: list[float] = jobs.run_s.tolist()
        self._bandwidth: list[float] = work.bandwidth_bps.tolist()
        self._share: list[float] = work.share.tolist()
        self._starts = [NEVER] * len(jobs)
        self._end_s = [NEVER] * len(jobs)
        self.allocations: list[Allocation] = [()] * len(jobs)
        """Clusters and processors of each job; empty if it has not started."""
        self._order: list[int] = []  # jobs in the order of their starts
        self._flows: dict[int, Flow] = {}  # by position in that order
        self._ends: list[tuple[float, int, int]] = [(NEVER, -1, 0)]  # (end, place in order, version of the flow or 0)
        self._submitted = 0
        self.now = 0.0
        self.ended = 0
        self.saturation: list[tuple[float, ...]] = []
        """Time, and the demand on each link from then on, as a share of its capacity."""

    @property
    def done(self) -> bool:
        """Return whether every job has ended."""
        return self.ended == len(self.work.jobs)

    @property
    def start_s(self) -> NDArray[np.float64]:
        """Start of each job, shape (jobs,); infinite if it has not started."""
        return np.array(self._starts)

    @property
    def end_s(self) -> NDArray[np.float64]:
        """End of each job, shape (jobs,); infinite if it has not ended."""
        return np.array(self._end_s)

    def advance(self, events: int) -> bool:
        """Handle the next ``events`` events, or as many as there are; return ``done``."""
        submit, ends, flows = self._submit, self._ends, self._flows
        scheduler = self.scheduler
        for _ in range(events):
            while (version := ends[0][2]) and ((flow := flows.get(ends[0][1])) is None or flow.version != version):
                heappop(ends)  # the job's speed has changed since
            coming = submit[self._submitted]
            if coming <= ends[0][0]:
                if coming == NEVER:
                    break
                self.now = coming
                self._submitted += 1
                self._begin(scheduler.submitted(coming, self._submitted - 1))
            else:
                self.now, place, _ = heappop(ends)
                self._end(place)
        return self.done

    def _begin(self, begun: Sequence[SpreadStart]) -> None:
        now, ends = self.now, self._ends
        spread = False
        for job, allocation in begun:
            place = len(self._order)
            self._order.append(job)
            self._starts[job] = now
            self.allocations[job] = allocation
            wanted = demand(allocation, self._bandwidth[job])
            if wanted:
                self._flows[place] = Flow(wanted, self._share[job], self._run[job], now)
                spread = True
            heappush(ends, (now + self._run[job], place, 1 if wanted else 0))
        if spread:
            self._share_out()

    def _end(self, place: int) -> None:
        now, job = self.now, self._order[place]
        self._end_s[job] = now
        self.ended += 1
        # A slowed job is measured lower.
        peak_bps = self._bandwidth[job]
        flow = self._flows.pop(place, None)
        if flow is not None:
            peak_bps *= max(flow.fastest, flow.speed)
            self._share_out()
        self._begin(self.scheduler.ended(now, job, peak_bps))

    def _share_out(self) -> None:
        """Recompute speeds after demands on the links have changed, and correct the ends of these jobs."""
        now = self.now
        demands = [flow.demand for flow in self._flows.values()]
        capacity = self.clusters.uplink_bps
        found = saturation(demands, capacity)
        self.saturation.append((now, *found))
        self.scheduler.measured(found)
        slowed = proportional(demands, capacity)
        for (place, flow), factor in zip(self._flows.items(), slowed, strict=True):
            speed = 1.0 / ((1.0 - flow.share) + flow.share * factor)
            if speed != flow.speed:
                if now > flow.since_s:
                    flow.fastest = max(flow.fastest, flow.speed)
                flow.left_s = max(0.0, flow.left_s - flow.speed * (now - flow.since_s))
                flow.since_s = now
                flow.speed = speed
                flow.version += 1
                heappush(self._ends, (now + flow.left_s / speed, place, flow.version))


FULL = 1.0 + 1e-9
"""Demand over capacity above which a link is saturated."""


def job_table(simulation: CoSimulation, users: NDArray[np.str_] | None = None) -> JobTable:
    """Return the table of a finished simulation. ``users``: of the trace's jobs, by row."""
    return replace(table_of(simulation.work.jobs, simulation.start_s, users), end_s=simulation.end_s)


def figures(simulation: CoSimulation, table: JobTable) -> dict[str, Any]:
    """Return the figures of a schedule (docs/use/definitions.md, Figures of a schedule), of spreading and of links.

    ``spread`` is the share of jobs on more than one cluster; ``mean_stretch`` their run time divided by that alone;
    ``jobs_per_hour`` the throughput until the last submission (None if all were submitted at once); ``saturated`` the
    share of link time in which demand exceeds capacity, and ``link_load`` the links' traffic as a share of their
    capacity.
    """
    spread = np.array([len(where) > 1 for where in simulation.allocations])
    stretch = (table.end_s - table.start_s)[spread] / table.run_s[spread]
    span = float(table.end_s.max() - table.submit_s.min())
    lasted, asked = link_history(simulation)
    links = len(simulation.clusters.processors)
    arriving = float(table.submit_s.max() - table.submit_s.min())
    return {
        **schedule_figures(table, simulation.clusters.total),
        "jobs_per_hour": 3600.0 * float((table.end_s <= table.submit_s.max()).sum()) / arriving if arriving else None,
        "spread": float(spread.mean()),
        "mean_stretch": float(stretch.mean()) if len(stretch) else 1.0,
        "saturated": float(lasted @ (asked > FULL).sum(axis=1)) / (links * span),
        "link_load": float(lasted @ np.minimum(asked, 1.0).sum(axis=1)) / (links * span),
    }


def link_history(simulation: CoSimulation) -> tuple[Floats, Floats]:
    """Return how long each state of the links lasted, shape (states,), and the demand on each, (states, links)."""
    links = len(simulation.clusters.processors)
    rows = np.array(simulation.saturation).reshape(-1, links + 1)
    return np.diff(rows[:, 0], append=simulation.now), rows[:, 1:]
