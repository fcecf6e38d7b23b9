"""Generates submissions in order of time: the users' applications, their needs, and their jobs.

A steady user runs one application; the needs of a drifting user wander and have spikes; a switching user alternates
between applications.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from math import inf

from jobsight_emulator.plan import CHANGED, SitePlan
from jobsight_emulator.site import PROCESSORS, Cluster

# Sixteen processors must stay well below the speed of a link of 100 Mb/s.
_LARGEST_BANDWIDTH_BPS = 4.8e6
_LARGEST_GIGABIT_BANDWIDTH_BPS = 45e6
# Traffic far above that of an idle node, so that the background is negligible.
_SMALLEST_BANDWIDTH_BPS = 0.3e6
_SMALLEST_SHARED_BANDWIDTH_BPS = 0.8e6
_LARGEST_MEMORY_BYTES = 3e9
# Factors on the needs of a user who changed.
_CHANGED = (0.35, 2.0)


@dataclass(frozen=True, slots=True)
class EmulatedApplication:
    """Typical needs, per processor where applicable; ``shapes`` are (nodes, processors per node)."""

    name: str
    bandwidth_bps: float
    memory_bytes: float
    cpu_utilisation: float
    runtime_s: float
    shapes: tuple[tuple[int, int], ...]
    gigabit: bool = False
    out_per_in: float = 0.6

    @property
    def whole_nodes(self) -> bool:
        """Return whether its jobs use whole nodes."""
        return self.shapes[0][1] == 16


@dataclass(frozen=True, slots=True)
class Demand:
    """The true needs of one job; bandwidth and memory per processor."""

    application: EmulatedApplication
    nodes: int
    processors_per_node: int
    bandwidth_bps: float
    memory_bytes: float
    cpu_utilisation: float
    runtime_s: int


PARALLEL = (
    EmulatedApplication("lattice", 3.2e6, 450e6, 0.96, 4.0 * 3600, ((4, 16), (8, 16)), out_per_in=0.9),
    EmulatedApplication("climate", 2.1e6, 900e6, 0.93, 6.0 * 3600, ((2, 16), (4, 16))),
    EmulatedApplication("dynamics", 3.8e6, 260e6, 0.98, 3.0 * 3600, ((1, 16), (2, 16), (4, 16)), out_per_in=0.95),
    EmulatedApplication("fluid", 1.2e6, 1_400e6, 0.90, 5.0 * 3600, ((2, 16), (3, 16), (4, 16))),
    EmulatedApplication("spectral", 28e6, 700e6, 0.85, 3.0 * 3600, ((2, 16), (4, 16)), gigabit=True, out_per_in=0.85),
    EmulatedApplication("graph", 18e6, 2_200e6, 0.70, 3.0 * 3600, ((1, 16), (2, 16)), gigabit=True, out_per_in=0.4),
    EmulatedApplication("render", 0.6e6, 1_800e6, 0.97, 0.75 * 3600, ((1, 16),), out_per_in=0.2),
    EmulatedApplication("solver", 0.5e6, 1_100e6, 0.94, 8.0 * 3600, ((1, 16), (2, 16))),
)
SHARED = (
    EmulatedApplication("assembly", 1.5e6, 2_400e6, 0.90, 5.0 * 3600, ((1, 2), (1, 4)), out_per_in=0.3),
    EmulatedApplication("alignment", 2.4e6, 800e6, 0.95, 4.0 * 3600, ((1, 2),), out_per_in=0.2),
    EmulatedApplication("sweep", 1.2e6, 600e6, 0.99, 7.0 * 3600, ((1, 1), (1, 2))),
    EmulatedApplication("statistics", 1.4e6, 1_500e6, 0.80, 4.0 * 3600, ((1, 1), (1, 2), (1, 4))),
    EmulatedApplication("imaging", 3.4e6, 1_000e6, 0.75, 2.0 * 3600, ((1, 4), (1, 8)), out_per_in=0.8),
    EmulatedApplication("coupling", 2.0e6, 700e6, 0.90, 5.0 * 3600, ((2, 4),), out_per_in=0.9),
)

# Per user: behaviour, and whether its jobs take whole nodes.
_KINDS = (
    ("steady", True), ("drifting", True), ("switching", True),
    ("steady", False), ("drifting", False), ("switching", False),
    ("steady", True), ("drifting", True), ("switching", True),
    ("steady", False), ("drifting", False), ("steady", True),
)  # fmt: skip
_USERS = ("ada", "ben", "cleo", "dan", "eva", "finn", "gina", "hugo", "iris", "jon", "kira", "leo")
# The random streams keep the names of the first release: a seed gives the same site.
_STREAMS = {"steady": "x", "drifting": "y", "switching": "z"}


@dataclass(slots=True)
class EmulatedUser:
    """A user; ``draw`` returns the needs of the next job and advances.

    ``stream`` names the random stream of the jobs. From ``changed_from`` on, they need between a third and twice as
    much.
    """

    name: str
    group: str
    account: str | None
    kind: str
    applications: tuple[EmulatedApplication, ...]
    stream: str = ""
    changed_from: float = inf
    current: int = 0
    drift: float = 0.0

    @property
    def whole_nodes(self) -> bool:
        """Return whether the user's jobs use whole nodes."""
        return self.applications[0].whole_nodes

    def draw(self, rng: random.Random, when: float) -> Demand:
        """Draw the needs of the user's next job, submitted at ``when``."""
        if self.kind == "switching" and rng.random() < 1 / 12:
            step = rng.randrange(1, len(self.applications))
            self.current = (self.current + step) % len(self.applications)
        application = self.applications[self.current]
        factor = 1.0
        if self.kind == "drifting":
            self.drift = 0.98 * self.drift + rng.gauss(0.0, 0.06)
            factor = math.exp(self.drift)
            if rng.random() < 0.08:
                factor *= rng.uniform(1.5, 3.0)
        changed = rng.uniform(*_CHANGED) if when >= self.changed_from else 1.0
        nodes, processors = rng.choice(application.shapes)
        runtime = changed * application.runtime_s * rng.lognormvariate(0.0, 0.15 if self.kind == "steady" else 0.4)
        if rng.random() < 0.04:
            # Fails soon after its start, for a wrong path or a missing licence.
            runtime = rng.uniform(4.0, 50.0)
        return Demand(
            application=application,
            nodes=nodes,
            processors_per_node=processors,
            bandwidth_bps=_bounded_bandwidth(application, changed * factor * _noisy(rng, application.bandwidth_bps)),
            memory_bytes=min(
                changed * math.sqrt(factor) * _noisy(rng, application.memory_bytes), _LARGEST_MEMORY_BYTES
            ),
            cpu_utilisation=min(application.cpu_utilisation * rng.uniform(0.97, 1.03), 0.998),
            runtime_s=max(2, round(runtime)),
        )


def _make_users(plan: SitePlan, cluster: Cluster) -> list[EmulatedUser]:
    """Make the dozen users of a cluster.

    Their jobs fit into a third of its whole nodes, or two shared ones, and typically last a tenth of the period at
    most. They need fast links only if that many nodes have them. On the first cluster one user changes, if planned.
    """
    rng = plan.rng("users", cluster.name)
    longest_runtime_s = max(10.0 * plan.interval_s, (plan.horizon - plan.start) / 10)
    most_nodes = max(1, len(cluster.whole_nodes) // 3)
    gigabit = sum(cluster.nodes[position].gigabit for position in cluster.whole_nodes) >= most_nodes
    pools = {True: [one for one in PARALLEL if gigabit or not one.gigabit], False: list(SHARED)}
    limits = {True: most_nodes, False: min(2, cluster.shared)}
    for pool in pools.values():
        rng.shuffle(pool)
    users = []
    for number, (name, (kind, whole)) in enumerate(zip(_USERS, _KINDS, strict=True), start=1):
        pool = pools[whole]
        count = rng.choice((2, 3)) if kind == "switching" else 1
        chosen, pools[whole] = pool[:count], pool[count:] + pool[:count]
        applications = tuple(_own(rng, application, longest_runtime_s, limits[whole]) for application in chosen)
        shared = "acct with space" if plan.faults.odd_names else "shared"
        account = (shared, None, f"proj{number:03d}")[number % 3]
        changed_from = plan.faults.changed_from if cluster.position == 0 and name == CHANGED else inf
        stream = f"{_STREAMS[kind]}{number:02d}"
        users.append(EmulatedUser(name, f"group{number % 4 + 1}", account, kind, applications, stream, changed_from))
    return users


def _own(
    rng: random.Random, application: EmulatedApplication, longest_runtime_s: float, most_nodes: int
) -> EmulatedApplication:
    """Vary the application for one user."""
    shapes = tuple(dict.fromkeys((min(nodes, most_nodes), processors) for nodes, processors in application.shapes))
    return replace(
        application,
        bandwidth_bps=_bounded_bandwidth(application, application.bandwidth_bps * rng.uniform(0.7, 1.3)),
        memory_bytes=application.memory_bytes * rng.uniform(0.7, 1.25),
        runtime_s=min(application.runtime_s * rng.uniform(0.6, 1.4), longest_runtime_s),
        shapes=shapes,
    )


def _noisy(rng: random.Random, value: float) -> float:
    return value * rng.lognormvariate(0.0, 0.03)


def _bounded_bandwidth(application: EmulatedApplication, bandwidth_bps: float) -> float:
    smallest = _SMALLEST_BANDWIDTH_BPS if application.whole_nodes else _SMALLEST_SHARED_BANDWIDTH_BPS
    largest = _LARGEST_GIGABIT_BANDWIDTH_BPS if application.gigabit else _LARGEST_BANDWIDTH_BPS
    return min(max(bandwidth_bps, smallest), largest)


# Share of busy processors, on whole nodes and on shared ones.
_LOAD = {True: 0.65, False: 0.5}
# Accounting logs quote nothing, so such names are hard to parse.
_ODD_NAMES = ("odd=na,me;x", "a;b=c", "run=1;final")


@dataclass(frozen=True, slots=True)
class EmulatedJob:
    """One submitted job. ``number`` is the scheduler's, ``member`` the index within an array.

    ``deleted_queued`` is the time at which a held job is deleted, ``deleted_after_s`` the run time before a running one
    is.
    """

    number: int
    member: int | None
    server: str
    user: EmulatedUser
    demand: Demand
    name: str
    submitted: int
    walltime_s: int
    session: int
    rerunnable: bool
    exit_status: int
    deleted_queued: int | None
    deleted_after_s: int | None

    @property
    def id(self) -> str:
        """The id as in the accounting log and the job's environment."""
        member = "" if self.member is None else f"[{self.member}]"
        return f"{self.number}{member}.{self.server}"

    @property
    def processors(self) -> int:
        """Processors over all nodes."""
        return self.demand.nodes * self.demand.processors_per_node


def make_jobs(plan: SitePlan, cluster: Cluster) -> list[EmulatedJob]:
    """Make all jobs of ``cluster`` in order of submission."""
    users = _make_users(plan, cluster)
    submissions: list[tuple[int, int, EmulatedUser, int]] = []
    works = [_mean_work(plan, cluster, user) for user in users]
    for position, (user, work) in enumerate(zip(users, works, strict=True)):
        # Users of large jobs get a larger share of the machine, but less than in proportion.
        peers = sum(other**0.5 for other, one in zip(works, users, strict=True) if one.whole_nodes == user.whole_nodes)
        nodes = len(cluster.whole_nodes) if user.whole_nodes else cluster.shared
        capacity = _LOAD[user.whole_nodes] * PROCESSORS * nodes * work**0.5 / peers
        rng = plan.rng("submissions", cluster.name, user.stream)
        for when, count in _arrivals(rng, plan, capacity / work):
            submissions.append((when, position, user, count))
    submissions.sort(key=lambda one: one[:2])
    rng = plan.rng("jobs", cluster.name)
    jobs: list[EmulatedJob] = []
    for number, (when, _, user, count) in enumerate(submissions, start=1000 * (cluster.position + 1)):
        members = [None] if count == 1 else list(range(1, count + 1))
        odd = rng.choice(_ODD_NAMES) if rng.random() < 0.02 else None
        odd = odd if plan.faults.odd_names else None
        series = rng.randrange(1, 40)
        jobs += [_make_job(rng, plan, cluster, user, number, member, odd, series, when) for member in members]
    return jobs


def _mean_work(plan: SitePlan, cluster: Cluster, user: EmulatedUser) -> float:
    """Estimate the processor seconds of a typical job of ``user``, without changing the user's state."""
    trial = EmulatedUser(user.name, user.group, user.account, user.kind, user.applications)
    rng = plan.rng("trial", cluster.name, user.stream)
    draws = [trial.draw(rng, plan.start) for _ in range(400)]
    return sum(one.nodes * one.processors_per_node * one.runtime_s for one in draws) / len(draws)


def _arrivals(rng: random.Random, plan: SitePlan, jobs_per_s: float) -> list[tuple[int, int]]:
    """Draw times of submission and numbers of jobs submitted together, more by day than by night."""
    arrivals: list[tuple[int, int]] = []
    time = float(plan.start)
    # One submission in eight is an array of four on average; two of three times are kept, see below.
    rate = jobs_per_s / (7 / 8 + 4 / 8) / (2 / 3)
    while True:
        time += rng.expovariate(rate)
        if time >= plan.horizon:
            return arrivals
        by_day = 8 <= time % 86_400 / 3600 < 20
        count = rng.randrange(2, 7) if rng.random() < 1 / 8 else 1
        if rng.random() < (5 / 6 if by_day else 1 / 2):
            arrivals.append((int(time), count))


def _make_job(
    rng: random.Random,
    plan: SitePlan,
    cluster: Cluster,
    user: EmulatedUser,
    number: int,
    member: int | None,
    odd_name: str | None,
    series: int,
    when: int,
) -> EmulatedJob:
    demand = user.draw(rng, when)
    failed = demand.runtime_s <= 50
    fate = rng.random()
    deleted_queued = when + rng.randrange(30, 3600) if fate < 0.01 else None
    if deleted_queued is not None and deleted_queued >= plan.horizon:
        deleted_queued = None
    deleted_after_s = None
    if 0.01 <= fate < 0.025 and demand.runtime_s > 60:
        deleted_after_s = rng.randrange(30, demand.runtime_s)
    # The request is the typical run time with a margin, in quarters of an hour; sometimes too little.
    walltime_s = demand.application.runtime_s * rng.choice((1.5, 2.0, 2.0, 3.0))
    return EmulatedJob(
        number=number,
        member=member,
        server=cluster.server,
        user=user,
        demand=demand,
        name=odd_name or f"{demand.application.name}-{series:02d}",
        submitted=when,
        walltime_s=max(1, round(walltime_s / 900)) * 900,
        session=rng.randrange(2_000, 32_000),
        rerunnable=rng.random() < 0.5,
        exit_status=rng.choice((1, 2, 127)) if failed else 0,
        deleted_queued=deleted_queued,
        deleted_after_s=deleted_after_s,
    )
