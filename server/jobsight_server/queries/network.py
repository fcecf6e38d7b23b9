"""The network: traffic as a share of nodes' links, jobs that fill them, and applications that should not be spread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
from sqlalchemy import Connection, func, or_, select

from jobsight_scheduler.coallocation.clusters import demand
from jobsight_scheduler.coallocation.placement import aware
from jobsight_scheduler.coallocation.scheduler import THETA
from jobsight_server.accounting.last_read import is_running
from jobsight_server.ground.amounts import DAY_S, day_of
from jobsight_server.ground.answers import Record
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import NAME, Parameter, above_zero
from jobsight_server.profiler.usage import link_speeds, speeds_of_links
from jobsight_server.queries.applications import last_ended
from jobsight_server.queries.node_states import NodeName, node_loads
from jobsight_server.savings.sums.kept import OTHER
from jobsight_server.savings.sums.read import Days, applications, stored_days, widened, within
from jobsight_server.storage.engine import fetch, rows_of
from jobsight_server.storage.schema import job_nodes, jobs, nodes, profiles

APPLICATIONS = Listing(
    ("processor_hours", "jobs", "application"),
    lowest_first=("application",),
    steady=("application",),
    rows=10,  # each is judged by its last jobs
    is_searched=False,
    filters=(
        Parameter("user", "only this user's", NAME),
        Parameter("application", "only those of this name", NAME),
        Parameter("uplink_bps", "bits per second of an uplink (default: a link of the jobs' nodes)", above_zero(1e15)),
    ),
)
SPAN_DAYS = 30
BUSY, FULL = 0.5, 0.95
"""Shares of a link from which a job is listed, and from which the link counts as full."""
MEASURED_LEAST = 5
"""Measured jobs below which an application is not judged."""
_NODES_LISTED = 20

Verdict = Literal["spread", "keep", "unknown"]


_Name = tuple[str, str, str]
"""Cluster, user and application, which is empty for jobs without a name."""
_Counted = tuple[str, str, str, int, float]
"""The same with the number of its jobs and their processor-hours."""


class LinkUse(Record):
    """A node's busier direction in the last minutes, and as a share of its ``links``, which carry ``link_bps``.

    The share is null where a speed is unknown or the node is silent; ``at_least``: with several links it is that of all
    together, so one of them is at least as busy. ``full_hours``: hours in which a link's rate from one reading to the
    next reached 95 %, of ``days`` summarised days.
    """

    cluster: str
    name: str
    links: int
    link_bps: float | None
    busier_bps: float | None
    share: float | None
    at_least: bool
    full_hours: int
    days: int


class JobOnLink(Record):
    """A running job on a node whose links are above half, by the node's ``share``; ``is_shared``: beside other jobs."""

    cluster: str
    job_id: str
    user: str
    node: str
    share: float
    is_shared: bool


class NetworkUse(Record):
    """The traffic of one user's application, of its last 100 jobs at most that ended in 30 days, and the verdict.

    ``jobs`` ended; ``measured`` of those read have a bandwidth, ``lower_bounds`` of these used more, ``apportioned``
    were on shared nodes. ``bandwidth_bps``: the mean per processor. ``node_*``: of a job's mean rate per node, over
    jobs. ``link_bps``: the slowest link that they used, by each job's first node; ``above_half`` jobs used more than
    half of theirs. ``demand_bps``: of the largest measured job, on ``processors``, in two halves, on each of two
    uplinks that carry ``uplink_bps``. ``verdict``: spread over clusters or uplinks, keep on one, or unknown.
    """

    cluster: str
    user: str
    application: str | None
    jobs: int
    processor_hours: float
    verdict: Verdict
    reason: str
    measured: int
    lower_bounds: int
    apportioned: int
    above_half: int
    node_median_bps: float | None
    node_p95_bps: float | None
    processors: int | None
    bandwidth_bps: float | None
    link_bps: float | None
    uplink_bps: float | None
    demand_bps: float | None


class NetworkUseList(ListPage):
    """One page of applications of jobs that ended from ``first_day`` on, counted from 1970-01-01."""

    first_day: int
    applications: list[NetworkUse]


class Network(NetworkUseList):
    """The busiest ``nodes`` of ``watched``, running ``jobs`` above half of a link, and a page of applications.

    ``without_speed``: nodes up whose links' speed is unknown. ``full_hours`` are from ``hours_since`` on, in summaries
    of readings, which end where the readings kept begin; ``summarised`` nodes have some.
    """

    now: float
    watched: int
    busy: int
    without_speed: int
    nodes: list[LinkUse]
    jobs: list[JobOnLink]
    jobs_above_half: int
    full_hours: int
    hours_since: float
    summarised: int


class MeasuredJob(NamedTuple):
    """A measured job; ``bandwidth_bps`` is per processor."""

    processors: int
    nodes: int
    bandwidth_bps: float
    link_bps: float | None
    lower_bound: bool
    apportioned: bool

    @property
    def node_bps(self) -> float:
        """Return its mean rate per node."""
        return self.bandwidth_bps * self.processors / self.nodes


Judged = tuple[Verdict, str, float | None]
"""The verdict, its reason, and the demand of the largest measured job on each of two uplinks."""


def judge(found: Sequence[MeasuredJob], uplink_bps: float | None) -> Judged:
    """Return the verdict of the co-allocation's policy ``aware`` (docs/use/definitions.md, Co-allocation).

    It places the largest measured job in two halves over empty uplinks, by the mean bandwidth of the measured jobs.
    """
    if len(found) < MEASURED_LEAST:
        return "unknown", f"fewer than {MEASURED_LEAST} jobs measured", None
    most, mean = max(job.processors for job in found), fmean(job.bandwidth_bps for job in found)
    if most < 2:
        return "keep", "its jobs have one processor", None
    halves = (most - most // 2, most // 2)
    asked = max((rate for _, rate in demand(tuple(enumerate(halves)), mean)), default=0.0)
    if uplink_bps is None:
        return "unknown", "no link's speed is known: give uplink_bps", asked
    lower = sum(job.lower_bound for job in found)
    text = f"a job on {most} processors in two halves asks {'at least ' if lower else ''}{_rate(asked)} of an uplink"
    if aware(most, mean, halves, [THETA * uplink_bps] * 2) is None:
        return "keep", f"{text}, above {100 * THETA:.0f} % of {_rate(uplink_bps)}", asked
    if lower:
        return "unknown", f"{text}: {lower} of {len(found)} values are lower bounds", asked
    return "spread", f"{text}, within {100 * THETA:.0f} % of {_rate(uplink_bps)}; larger jobs: unknown", asked


def network_use(
    connection: Connection,
    now: float,
    asked: Asked,
) -> NetworkUseList:
    """Return a page of the applications; without ``uplink_bps`` an uplink carries what a node's link does."""
    last, of = day_of(now), asked.of
    days = Days(last - SPAN_DAYS + 1, last)
    stored = stored_days(connection)
    counted = within(days, stored)
    names = {"cluster": asked.cluster, "user": of["user"], "application": of["application"]}
    total, rows = applications(connection, widened(counted, stored), names, asked) if stored and counted else (0, [])
    place = itemgetter({"application": 2, "jobs": 3, "processor_hours": 4}[asked.sort])
    position, shown = asked.page_of(rows, place, lambda row: row[:3], total)
    measured = _measured(connection, days, [row[:3] for row in shown])
    return NetworkUseList(*position, days.first, [_use(row, measured[row[:3]], of["uplink_bps"]) for row in shown])


def _use(counted: _Counted, of: Sequence[MeasuredJob], uplink_bps: float | None) -> NetworkUse:
    cluster, user, application, number, hours = counted
    link_bps = min((job.link_bps for job in of if job.link_bps), default=None)
    uplink_bps = uplink_bps or link_bps
    verdict, reason, demand_bps = judge(of, uplink_bps)
    if application in ("", OTHER):
        verdict, reason = "unknown", "its jobs have no name of their own"
    rates = np.array([job.node_bps for job in of])
    median, p95 = np.quantile(rates, (0.5, 0.95), method="inverted_cdf").tolist() if of else (None, None)
    return NetworkUse(
        cluster,
        user,
        application or None,
        number,
        hours,
        verdict,
        reason,
        len(of),
        sum(job.lower_bound for job in of),
        sum(job.apportioned for job in of),
        sum(job.link_bps is not None and job.node_bps > BUSY * job.link_bps for job in of),
        median,
        p95,
        processors=max((job.processors for job in of), default=None),
        bandwidth_bps=fmean(job.bandwidth_bps for job in of) if of else None,
        link_bps=link_bps,
        uplink_bps=uplink_bps,
        demand_bps=demand_bps,
    )


def network(connection: Connection, now: float, retention_s: float, use: NetworkUseList) -> Network:
    """Return the links now, and the page ``use`` of applications; readings are kept for ``retention_s``."""
    rows = fetch(connection, select(*nodes.c["id", "interfaces", "cluster", "name"]).order_by(nodes.c.id), {})
    links = {number: (speeds_of_links(interfaces), *name) for number, interfaces, *name in rows}
    since = now - retention_s - SPAN_DAYS * DAY_S
    hours = _full_hours(connection, since, {number: _carried(speeds) for number, (speeds, *_) in links.items()})
    loads, found, without = node_loads(connection, now), [], 0
    for number, (speeds, cluster, name) in links.items():
        busier, link_bps = loads[cluster, name].bandwidth_bps, _carried(speeds)
        without += busier is not None and link_bps is None
        share = None if busier is None or link_bps is None else busier / link_bps
        full, known = hours.get(number, (0, 0))
        found.append(LinkUse(cluster, name, len(speeds), link_bps, busier, share, len(speeds) > 1, full, known))
    found.sort(key=lambda each: (each.share is None, -(each.share or 0.0), -each.full_hours, each.cluster, each.name))
    busy = {(each.cluster, each.name): each.share for each in found if each.share is not None and each.share > BUSY}
    above = _jobs_on(connection, busy, now)
    return Network(
        **{field: getattr(use, field) for field in NetworkUseList.__struct_fields__},
        now=now,
        watched=len(found),
        busy=len(busy),
        without_speed=without,
        nodes=found[:_NODES_LISTED],
        jobs=above[:_NODES_LISTED],
        jobs_above_half=len({(each.cluster, each.job_id) for each in above}),
        full_hours=sum(each.full_hours for each in found),
        hours_since=since,
        summarised=sum(each.days > 0 for each in found),
    )


def _carried(speeds: Sequence[float | None]) -> float | None:
    """Return what the links carry together; None if the speed of one is unknown."""
    known = [speed for speed in speeds if speed]
    return sum(known) if known and len(known) == len(speeds) else None


def _rate(value: float) -> str:
    return f"{value / 1e9:.3g} Gbit/s" if value >= 1e9 else f"{value / 1e6:.3g} Mbit/s"


def _full_hours(
    connection: Connection, since: float, carried: Mapping[int, float | None]
) -> dict[int, tuple[int, int]]:
    """Return for each node the hours in which its links were full, and its summarised days."""
    links = ", ".join(f"({number}, {FULL * speed})" for number, speed in carried.items() if speed)
    if not links:
        return {}
    begin = f"WITH links(id, bps) AS (VALUES {links}) "
    days = (
        "FROM links CROSS JOIN sample_summaries d WHERE d.node_id = links.id AND d.period = 'day' AND d.first_time >= ?"
    )
    known = dict(fetch(connection, f"{begin}SELECT links.id, count(*) {days} GROUP BY links.id", (since,)))
    # Days first: few of them have a full hour.
    full = fetch(
        connection,
        f"{begin}, full_days AS (SELECT links.id, links.bps, d.first_time AS day {days} "
        "AND (d.in_bps_max >= links.bps OR d.out_bps_max >= links.bps)) SELECT f.id, count(*) "
        "FROM full_days f CROSS JOIN sample_summaries h WHERE h.node_id = f.id AND h.period = 'hour' "
        f"AND h.first_time >= f.day AND h.first_time < f.day + {DAY_S} "
        "AND (h.in_bps_max >= f.bps OR h.out_bps_max >= f.bps) GROUP BY f.id",
        (since,),
    )
    counts = dict(full)
    return {number: (counts.get(number, 0), of) for number, of in known.items()}


def _jobs_on(connection: Connection, busy: Mapping[NodeName, float], now: float) -> list[JobOnLink]:
    """Return the running jobs on these nodes, those on the busiest first."""
    if not busy:
        return []
    query = select(jobs.c.cluster, jobs.c.job_id, jobs.c.user, job_nodes.c.node)
    query = query.join(job_nodes, jobs.c.id == job_nodes.c.run_id).where(is_running(now))
    on_node: dict[NodeName, list[Any]] = defaultdict(list)
    for row in connection.execute(query):
        name = row.node if (row.cluster, row.node) in busy else row.node.partition(".")[0]
        if (row.cluster, name) in busy:
            on_node[row.cluster, name].append(row)
    return [
        JobOnLink(row.cluster, row.job_id, row.user, name, share, len(on_node[cluster, name]) > 1)
        for (cluster, name), share in sorted(busy.items(), key=lambda each: (-each[1], each[0]))
        for row in on_node[cluster, name]
    ]


_COUNTS = or_(profiles.c.lower_bound, ~profiles.c.shown_only)
_BANDWIDTHS = select(*profiles.c["run_id", "value", "lower_bound", "attribution", "fabric"])
_BANDWIDTHS = _BANDWIDTHS.where(profiles.c.metric == "bandwidth", profiles.c.value.is_not(None), _COUNTS)
_OF = job_nodes.c
_HELD = select(_OF.run_id, func.count(), func.min(_OF.node), func.sum(_OF.processors)).group_by(_OF.run_id)


def _measured(connection: Connection, days: Days, names: Sequence[_Name]) -> dict[_Name, list[MeasuredJob]]:
    """Return the last measured jobs of each application."""
    runs: dict[int, tuple[_Name, int | None]] = {}
    for name in names:
        cluster, user, application = name
        for run_id, processors, *_ in last_ended(connection, cluster, user, application or None, days):
            runs[run_id] = name, processors
    named = fetch(connection, select(*nodes.c["interfaces", "cluster", "name"]), {})
    links = {tuple(name): interfaces for interfaces, *name in named}
    held = {run_id: of for run_id, *of in rows_of(connection, _HELD, _OF.run_id, list(runs))}
    found: dict[_Name, list[MeasuredJob]] = defaultdict(list)
    for row in rows_of(connection, _BANDWIDTHS, profiles.c.run_id, list(runs)):
        name, processors = runs[row.run_id]
        number, first, of_all = held.get(row.run_id, (1, "", 1))
        speeds = link_speeds(links.get((name[0], first)) or links.get((name[0], first.partition(".")[0])) or "[]")
        link_bps = speeds.get(row.fabric) or max(speeds.values(), default=0.0) or None
        apportioned = row.attribution == "apportioned"
        found[name].append(MeasuredJob(processors or of_all, number, row.value, link_bps, row.lower_bound, apportioned))
    return found
