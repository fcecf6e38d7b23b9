"""The emulated machines: clusters, their nodes, interfaces and outages."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from math import inf

from jobsight_agent.machine import NodeDescription
from jobsight_agent.reading import Interface
from jobsight_emulator.plan import EmulatorError, SitePlan

PROCESSORS = 16
MEMORY_BYTES = 64 * 2**30
# Share of a job's traffic over InfiniBand on nodes that have it.
INFINIBAND_SHARE = 0.8

_NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")


@dataclass(frozen=True, slots=True)
class Outage:
    """The node is off from ``down`` until ``up``, then boots with a new boot id."""

    down: int
    up: int


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    """One machine. ``lost`` holds, rising, the numbers of missing regular readings; from ``silent_from`` on all are
    missing.

    ``traffic_shares`` are the shares of the node's traffic on its interfaces.
    """

    cluster: str
    name: str
    gigabit: bool
    interfaces: tuple[Interface, ...]
    traffic_shares: tuple[float, ...]
    first_counters: tuple[tuple[int, int], ...]
    first_cpu_s: float
    idle_memory_bytes: int
    idle_cpu: float
    background_in_bytes_s: float
    background_out_bytes_s: float
    phase_s: float
    skew_s: float
    outages: tuple[Outage, ...]
    lost: tuple[int, ...]
    machine: NodeDescription
    silent_from: float = inf


@dataclass(frozen=True, slots=True)
class Cluster:
    """``nodes[:shared]`` take jobs smaller than a node, the others whole-node jobs; a lone node takes both."""

    name: str
    position: int
    nodes: tuple[EmulatedNode, ...]
    shared: int
    utc_offset_s: int

    @property
    def server(self) -> str:
        """The server's name, with which job ids end."""
        return f"{self.name}-server.example"

    @property
    def whole_nodes(self) -> range:
        """Positions of the nodes that jobs take whole."""
        return range(self.shared % len(self.nodes), len(self.nodes))


def make_site(plan: SitePlan) -> tuple[Cluster, ...]:
    """Make the clusters of ``plan``, with its nodes split evenly."""
    if plan.clusters > len(_NAMES):
        raise EmulatorError(f"{plan.clusters} clusters: at most {len(_NAMES)} can be named")
    each, rest = divmod(plan.nodes, plan.clusters)
    clusters = []
    for position, name in enumerate(_NAMES[: plan.clusters]):
        count = each + (position < rest)
        nodes = tuple(_make_node(plan, name, index) for index in range(count))
        if position == 0:
            nodes = (*nodes[:-1], replace(nodes[-1], silent_from=plan.faults.silent_from))
        # Every other server is five hours behind UTC, the others use UTC.
        offset = -5 * 3600 if position % 2 == 0 else 0
        clusters.append(Cluster(name, position, nodes, max(1, count // 8), offset))
    return tuple(clusters)


def _make_node(plan: SitePlan, cluster: str, index: int) -> EmulatedNode:
    name = f"{cluster}-n{index + 1:03d}"
    rng, faults = plan.rng("node", name), plan.faults
    unreliable = plan.rng("unreliable", name).random() < faults.unreliable_nodes
    gigabit = index % 2 == 0
    interfaces = _interfaces(gigabit, infiniband=index % 8 in (6, 7))
    shares = (1.0,) if len(interfaces) == 1 else (1.0 - INFINIBAND_SHARE, INFINIBAND_SHARE)
    return EmulatedNode(
        cluster=cluster,
        name=name,
        gigabit=gigabit,
        interfaces=interfaces,
        traffic_shares=shares,
        first_counters=tuple(
            (_first_counter(rng, interface), _first_counter(rng, interface)) for interface in interfaces
        ),
        first_cpu_s=round(rng.uniform(10.0, 5e6), 2),
        idle_memory_bytes=rng.randrange(1_200, 3_000) * 2**20,
        idle_cpu=rng.uniform(0.002, 0.008),
        background_in_bytes_s=rng.uniform(60.0, 200.0),
        background_out_bytes_s=rng.uniform(40.0, 120.0),
        phase_s=rng.randrange(plan.interval_s) + rng.choice((0.25, 0.5, 0.75)),
        skew_s=rng.choice((-1, 1)) * rng.randrange(2, 13) / 4 if rng.random() < faults.skewed_nodes else 0.0,
        outages=_outages(rng, plan, faults.unreliable_every_s if unreliable else faults.outage_every_s),
        lost=_lost(rng, plan),
        machine=_machine(plan, name, gigabit),
    )


def _machine(plan: SitePlan, name: str, gigabit: bool) -> NodeDescription:
    """Make the machine facts; nodes with faster links are newer."""
    rng = plan.rng("machine", name)
    return NodeDescription(
        id=f"{rng.getrandbits(128):032x}",
        system="linux-x86_64",
        cores=PROCESSORS,
        clock_hz=3.1e9 if gigabit else 2.3e9,
        benchmark_flops=round((6.2e7 if gigabit else 4.1e7) * rng.uniform(0.97, 1.03)),
        storage_bytes=(960 if gigabit else 480) * 10**9,
    )


def _interfaces(gigabit: bool, infiniband: bool) -> tuple[Interface, ...]:
    if gigabit:
        ethernet = Interface("eth0", "ethernet", 64, 1_000_000_000)
    else:
        ethernet = Interface("eth0", "ethernet", 32, 100_000_000)
    if not infiniband:
        return (ethernet,)
    return (ethernet, Interface("mlx4_0/1", "infiniband", 64, 40_000_000_000))


def _first_counter(rng: random.Random, interface: Interface) -> int:
    if interface.kind == "infiniband":
        return rng.randrange(2**42) * 4
    if interface.width_bits == 64:
        return rng.randrange(2**45)
    near = rng.random() < 0.25
    return rng.randrange(2**32 - 2**16, 2**32) if near else rng.randrange(2**32)


def _outages(rng: random.Random, plan: SitePlan, every_s: float) -> tuple[Outage, ...]:
    outages: list[Outage] = []
    down = plan.start + int(rng.expovariate(1.0 / every_s))
    while True:
        up = down + rng.randrange(180, 900)
        if up >= plan.horizon:
            return tuple(outages)
        outages.append(Outage(down, up))
        down = up + 3600 + int(rng.expovariate(1.0 / every_s))


def _lost(rng: random.Random, plan: SitePlan) -> tuple[int, ...]:
    if not plan.faults.lost_readings:
        return ()
    lost: list[int] = []
    number = int(rng.expovariate(plan.faults.lost_readings))
    while number * plan.interval_s < plan.end - plan.start:
        lost.append(number)
        number += 1 + int(rng.expovariate(plan.faults.lost_readings))
    return tuple(lost)
