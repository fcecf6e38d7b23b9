"""Users X, Y and Z of the paper on the profile-guided predictor, and its campaign, submitted at even intervals.

X is ideal: nearly all jobs alike. Y switches once, at the third job. Z is spread: most jobs are near one level, the
others are spikes. The campaign has 600 jobs of 62
users: as in the paper, 38 (61 %) use memory and 25 (40 %) use bandwidth as X does, with PQM above .8. The others are
like Y and Z in turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from jobsight_emulator.plan import EmulatorError, SitePlan
from jobsight_emulator.site import Cluster
from jobsight_emulator.workload import Demand, EmulatedApplication, EmulatedJob, EmulatedUser

# Jobs that differ by less than a fifth count as alike, so noise within this share keeps all of them alike: 1.09 / 0.91.
_NOISE_AT_MOST = 0.09
# Share of the jobs that are apart: 4 of 36, as PQM .89 has it for X; 30 % for Z.
_APART_ONE_IN = 9
_SPIKES = 0.3
# The job with which Y's needs become four times as large, counted from 1.
_SWITCHES_AT = 3
_SWITCH = 4.0


def ideal(rng: random.Random, jobs: int, level: float, noise: float) -> list[float]:
    """User X: as ``steady``, with the jobs apart in the first third of the history."""
    return steady(rng, jobs, level, noise, max(2, jobs // 3))


def steady(rng: random.Random, jobs: int, level: float, noise: float, apart_before: int | None = None) -> list[float]:
    """One job in nine, never the first, is apart, up and down in turn; before job ``apart_before``, or anywhere.

    PQM is .89 for 36 jobs and above .8 for any number of them.
    """
    values = [level * _noisy(rng, noise) for _ in range(jobs)]
    apart = rng.sample(range(1, apart_before or jobs), jobs // _APART_ONE_IN)
    for turn, job in enumerate(apart):
        values[job] = level * (rng.uniform(1.3, 1.4) if turn % 2 else rng.uniform(0.6, 0.7))
    return values


def switching_once(rng: random.Random, jobs: int, level: float, noise: float) -> list[float]:
    """User Y: four times the level from the third job on, as from 200 to 800 MB."""
    return [level * (_SWITCH if job >= _SWITCHES_AT else 1.0) * _noisy(rng, noise) for job in range(1, jobs + 1)]


def spread(rng: random.Random, jobs: int, level: float, noise: float) -> list[float]:
    """User Z: 70 % of the jobs are near the level, the others, never the first, 1.6 to 2.2 times as large."""
    spikes = set(rng.sample(range(1, jobs), round(_SPIKES * jobs)))
    return [level * (rng.uniform(1.6, 2.2) if job in spikes else _noisy(rng, noise)) for job in range(jobs)]


PUBLISHED: dict[str, Callable[[random.Random, int, float, float], list[float]]] = {
    "x": ideal,
    "y": switching_once,
    "z": spread,
}
"""The use of each of the user's ``jobs`` jobs, in the unit of ``level``."""

CAMPAIGN = PUBLISHED | {"x": steady}
"""The same for the users of the campaign: those like X are as similar as X, but not settled towards the end."""


def _noisy(rng: random.Random, noise: float) -> float:
    """Draw factors around 1 with root mean square deviation ``noise``, at most 9 % off."""
    return min(max(rng.gauss(1.0, noise), 1.0 - _NOISE_AT_MOST), 1.0 + _NOISE_AT_MOST)


CAMPAIGN_JOBS = 600
CAMPAIGN_USERS = 62
STEADY_MEMORY, STEADY_BANDWIDTH = 38, 25

_FEWEST_JOBS = 5
_CAMPAIGN_NOISE = 0.05
_RUNTIME_S = 1200
_WALLTIME_S = 3600
_MB = 1e6
_BPS = 0.8e6
# Most of the processors that such jobs may keep busy: they must start, and so end, in the order of submission.
_LOAD_AT_MOST = 0.6


@dataclass(frozen=True, slots=True)
class PublishedUser:
    """A user and the needs of each job: memory in bytes and bandwidth in bit/s, both per processor."""

    user: EmulatedUser
    memory: list[float]
    bandwidth: list[float]


def three_users(plan: SitePlan) -> list[PublishedUser]:
    """X with 36 jobs of about 30 MB, Y with 20 that switch from 200 to 800 MB, Z with 40, most of them near 50 MB."""
    rng = plan.rng("published")
    users = []
    for kind, jobs, level_mb, noise in (("x", 36, 30.0, 0.01), ("y", 20, 200.0, 0.01), ("z", 40, 50.0, 0.05)):
        draw = PUBLISHED[kind]
        memory = draw(rng, jobs, level_mb * _MB, noise)
        users.append(PublishedUser(_user(kind, kind, 0), memory, draw(rng, jobs, _BPS, noise)))
    return users


def campaign_users(plan: SitePlan) -> list[PublishedUser]:
    """Draw the users of the campaign, each with at least five jobs, a few with many."""
    rng = plan.rng("campaign")
    counts = _job_counts(rng)
    memory_kinds = _kinds(rng, STEADY_MEMORY)
    # A user who is steady in bandwidth is steady in memory, too.
    steady = [position for position, kind in enumerate(memory_kinds) if kind == "x"]
    chosen = set(rng.sample(steady, STEADY_BANDWIDTH))
    others = iter(_others(rng, CAMPAIGN_USERS - STEADY_BANDWIDTH))
    users = []
    for position, (jobs, kind) in enumerate(zip(counts, memory_kinds, strict=True)):
        bandwidth_kind = "x" if position in chosen else next(others)
        level_mb = rng.uniform(50.0, 500.0)
        users.append(
            PublishedUser(
                _user(f"u{position + 1:02d}", f"{kind}/{bandwidth_kind}", position),
                CAMPAIGN[kind](rng, jobs, level_mb * _MB, _CAMPAIGN_NOISE),
                CAMPAIGN[bandwidth_kind](rng, jobs, _BPS * rng.uniform(0.7, 1.3), _CAMPAIGN_NOISE),
            )
        )
    return users


def three_users_jobs(plan: SitePlan, cluster: Cluster) -> list[EmulatedJob]:
    """Make the jobs of X, Y and Z."""
    return make_published_jobs(plan, cluster, three_users(plan))


def campaign_jobs(plan: SitePlan, cluster: Cluster) -> list[EmulatedJob]:
    """Make the jobs of the campaign."""
    return make_published_jobs(plan, cluster, campaign_users(plan))


def make_published_jobs(plan: SitePlan, cluster: Cluster, users: list[PublishedUser]) -> list[EmulatedJob]:
    """Make the jobs of ``users`` in random order at even intervals; each user's jobs keep their order.

    Raises:
        EmulatorError: the nodes cannot run that many jobs in the period.
    """
    rng = plan.rng("order", cluster.name)
    turns = [position for position, one in enumerate(users) for _ in one.memory]
    rng.shuffle(turns)
    busy_node_s = len(turns) * _RUNTIME_S
    whole = len(cluster.whole_nodes)
    last = plan.horizon - 2 * _RUNTIME_S
    if busy_node_s > _LOAD_AT_MOST * whole * (last - plan.start):
        least = busy_node_s / (_LOAD_AT_MOST * whole) / 86_400
        raise EmulatorError(f"{len(turns)} jobs need {least:.1f} days on {whole} whole nodes: give more weeks or nodes")
    upcoming = [iter(zip(one.memory, one.bandwidth, strict=True)) for one in users]
    jobs = []
    for index, position in enumerate(turns):
        user = users[position].user
        memory, bandwidth = next(upcoming[position])
        demand = Demand(user.applications[0], 1, 16, bandwidth, memory, 0.9, _RUNTIME_S)
        jobs.append(
            EmulatedJob(
                number=1000 + index,
                member=None,
                server=cluster.server,
                user=user,
                demand=demand,
                name=user.applications[0].name,
                submitted=plan.start + 60 + index * (last - plan.start - 60) // len(turns),
                walltime_s=_WALLTIME_S,
                session=rng.randrange(2_000, 32_000),
                rerunnable=False,
                exit_status=0,
                deleted_queued=None,
                deleted_after_s=None,
            )
        )
    return jobs


def _user(name: str, kind: str, position: int) -> EmulatedUser:
    application = EmulatedApplication(f"code-{name}", _BPS, 100 * _MB, 0.9, _RUNTIME_S, ((1, 16),))
    return EmulatedUser(name, f"group{position % 4 + 1}", f"proj{position % 6 + 1:03d}", kind, (application,))


def _job_counts(rng: random.Random) -> list[int]:
    """Draw the number of jobs of each user, 600 in all; large numbers are rarer."""
    counts = [_FEWEST_JOBS] * CAMPAIGN_USERS
    weights = [1.0 / rank for rank in range(1, CAMPAIGN_USERS + 1)]
    rng.shuffle(weights)
    for position in rng.choices(range(CAMPAIGN_USERS), weights, k=CAMPAIGN_JOBS - sum(counts)):
        counts[position] += 1
    return counts


def _kinds(rng: random.Random, steady: int) -> list[str]:
    kinds = ["x"] * steady + _others(rng, CAMPAIGN_USERS - steady)
    rng.shuffle(kinds)
    return kinds


def _others(rng: random.Random, count: int) -> list[str]:
    kinds = [("y", "z")[number % 2] for number in range(count)]
    rng.shuffle(kinds)
    return kinds
