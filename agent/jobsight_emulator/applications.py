"""The users of a cluster and what their applications need.

A steady user runs one application; a drifting one's needs wander and have spikes; a switching one changes between
applications. Users X, Y and Z of the paper on the profile-guided predictor are in ``published``.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from math import inf

from jobsight_emulator.plan import CHANGED, Faults

# A node with sixteen processors on a link of 100 Mb/s must stay well below the link's speed.
_LARGEST_BANDWIDTH_BPS = 4.8e6
_LARGEST_GIGABIT_BANDWIDTH_BPS = 45e6
# Traffic far above what an idle node sees, so that the background is lost in it.
_SMALLEST_BANDWIDTH_BPS = 0.3e6
_SMALLEST_SHARED_BANDWIDTH_BPS = 0.8e6
_LARGEST_MEMORY_BYTES = 3e9
# Of what was needed, by the jobs of a user who changed.
_CHANGED = (0.35, 2.0)


@dataclass(frozen=True, slots=True)
class EmulatedApplication:
    """Typical needs, per processor where that makes sense; ``shapes`` are (nodes, processors per node)."""

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
        """Whether its jobs have their nodes to themselves."""
        return self.shapes[0][1] == 16


@dataclass(frozen=True, slots=True)
class Demand:
    """The real needs of one job; bandwidth and memory per processor."""

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

# Per user: what it does, and whether its jobs take whole nodes.
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
    """One user; ``draw`` returns the needs of the next job and advances.

    ``stream`` names the random stream of the jobs. From ``changed_from`` on, these need anything from a third to twice
    of what they did.
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
        """Whether the user's jobs have their nodes to themselves."""
        return self.applications[0].whole_nodes

    def draw(self, rng: random.Random, when: float) -> Demand:
        """The needs of the user's next job, submitted at ``when``."""
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


def make_users(
    rng: random.Random,
    longest_runtime_s: float,
    most_nodes: int,
    most_shared: int,
    gigabit: bool,
    faults: Faults,
    first: bool,
) -> tuple[EmulatedUser, ...]:
    """The dozen users of a cluster; their jobs fit into ``most_nodes`` whole or ``most_shared`` shared nodes.

    No application runs typically longer than ``longest_runtime_s``, none needs a fast link unless ``gigabit``. On the
    ``first`` cluster one user changes, if ``faults`` say when.
    """
    pools = {True: [one for one in PARALLEL if gigabit or not one.gigabit], False: list(SHARED)}
    limits = {True: most_nodes, False: most_shared}
    for pool in pools.values():
        rng.shuffle(pool)
    users = []
    for number, (name, (kind, whole)) in enumerate(zip(_USERS, _KINDS, strict=True), start=1):
        pool = pools[whole]
        count = rng.choice((2, 3)) if kind == "switching" else 1
        chosen, pools[whole] = pool[:count], pool[count:] + pool[:count]
        applications = tuple(_own(rng, application, longest_runtime_s, limits[whole]) for application in chosen)
        shared = "acct with space" if faults.odd_names else "shared"
        account = (shared, None, f"proj{number:03d}")[number % 3]
        changed_from = faults.changed_from if first and name == CHANGED else inf
        stream = f"{_STREAMS[kind]}{number:02d}"
        users.append(EmulatedUser(name, f"group{number % 4 + 1}", account, kind, applications, stream, changed_from))
    return tuple(users)


def _own(
    rng: random.Random, application: EmulatedApplication, longest_runtime_s: float, most_nodes: int
) -> EmulatedApplication:
    """The application as one user runs it."""
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
