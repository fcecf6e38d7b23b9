"""What the users submit, in order of time."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jobsight_emulator.applications import Demand, EmulatedUser, make_users
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.site import PROCESSORS, Cluster

# Share of the processors that jobs keep busy: on nodes that are taken whole, and on shared ones.
_LOAD = {True: 0.65, False: 0.5}
_SECONDS_PER_DAY = 86_400
# Nothing in an accounting log is quoted, so such names are hard to read back.
_ODD_NAMES = ("odd=na,me;x", "a;b=c", "run=1;final")


@dataclass(frozen=True, slots=True)
class EmulatedJob:
    """One submitted job. ``number`` is that of the scheduler, ``member`` the index within an array.

    ``deleted_queued`` is when a held job is deleted, ``deleted_after_s`` after how much run time a running one is.
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
        """As the accounting log and the job's environment have it."""
        member = "" if self.member is None else f"[{self.member}]"
        return f"{self.number}{member}.{self.server}"

    @property
    def array_id(self) -> str:
        """The id of the array's parent."""
        return f"{self.number}[].{self.server}"

    @property
    def processors(self) -> int:
        """Over all nodes."""
        return self.demand.nodes * self.demand.processors_per_node


def make_jobs(plan: SitePlan, cluster: Cluster) -> list[EmulatedJob]:
    """All jobs of ``cluster`` in order of submission."""
    whole = len(cluster.whole_nodes)
    most_nodes = max(1, whole // 3)
    gigabit = sum(cluster.nodes[position].gigabit for position in cluster.whole_nodes) >= most_nodes
    longest = max(10.0 * plan.interval_s, (plan.horizon - plan.start) / 10)
    users = make_users(
        plan.rng("users", cluster.name),
        longest,
        most_nodes,
        min(2, cluster.shared),
        gigabit,
        plan.faults,
        cluster.position == 0,
    )
    submissions: list[tuple[int, int, EmulatedUser, int]] = []
    works = [_mean_work(plan, cluster, user) for user in users]
    for position, (user, work) in enumerate(zip(users, works, strict=True)):
        # Users of large jobs get more of the machine, as at real sites, but not in proportion.
        peers = sum(other**0.5 for other, one in zip(works, users, strict=True) if one.whole_nodes == user.whole_nodes)
        nodes = whole if user.whole_nodes else cluster.shared
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
    """Processor seconds of a typical job of ``user``, from a trial that leaves the user's state alone."""
    trial = EmulatedUser(user.name, user.group, user.account, user.kind, user.applications)
    rng = plan.rng("trial", cluster.name, user.stream)
    draws = [trial.draw(rng, plan.start) for _ in range(400)]
    return sum(one.nodes * one.processors_per_node * one.runtime_s for one in draws) / len(draws)


def _arrivals(rng: random.Random, plan: SitePlan, jobs_per_s: float) -> list[tuple[int, int]]:
    """Times of submission and the number of jobs submitted together, more by day than by night."""
    arrivals: list[tuple[int, int]] = []
    time = float(plan.start)
    # One submission in eight is an array of four on average; two of three times are kept, see below.
    rate = jobs_per_s / (7 / 8 + 4 / 8) / (2 / 3)
    while True:
        time += rng.expovariate(rate)
        if time >= plan.horizon:
            return arrivals
        by_day = 8 <= time % _SECONDS_PER_DAY / 3600 < 20
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
    return EmulatedJob(
        number=number,
        member=member,
        server=cluster.server,
        user=user,
        demand=demand,
        name=odd_name or f"{demand.application.name}-{series:02d}",
        submitted=when,
        walltime_s=_walltime(rng, demand),
        session=rng.randrange(2_000, 32_000),
        rerunnable=rng.random() < 0.5,
        exit_status=rng.choice((1, 2, 127)) if failed else 0,
        deleted_queued=deleted_queued,
        deleted_after_s=deleted_after_s,
    )


def _walltime(rng: random.Random, demand: Demand) -> int:
    """The user's request: typical run time with a margin, in quarters of an hour; sometimes too little."""
    asked = demand.application.runtime_s * rng.choice((1.5, 2.0, 2.0, 3.0))
    return max(1, round(asked / 900)) * 900
