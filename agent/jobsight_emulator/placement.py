"""Places the jobs: first come, first served, with one queue for whole nodes and one for shared ones."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from jobsight_emulator.plan import SitePlan
from jobsight_emulator.site import PROCESSORS, Cluster
from jobsight_emulator.workload import EmulatedJob

# Between a scheduler's decision and the start of the job.
_START_DELAY_S = 2
# A node takes no job this long before an outage (its fault is known), nor until it is seen again.
_DRAINED_S = 30

WALLTIME_EXIT = -11
DELETED_EXIT = 271
KILLED_EXIT = 265


@dataclass(frozen=True, slots=True)
class Place:
    """A job's part of one node: its processors (slots) and its use."""

    node: int
    slots: tuple[int, ...]
    in_bytes_s: float
    out_bytes_s: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class EmulatedRun:
    """One run of a job. ``end`` is None while it runs; ``requeued``: it ended by an outage and will run again.

    ``killed_on`` is the node whose outage ended it; ``lost_marks`` are (node, event) that its hooks missed.
    """

    job: EmulatedJob
    start: int
    end: int | None
    places: tuple[Place, ...]
    start_count: int
    exit_status: int
    requeued: bool = False
    killed_on: int | None = None
    lost_marks: frozenset[tuple[int, str]] = frozenset()


@dataclass(slots=True)
class _State:
    plan: SitePlan
    cluster: Cluster
    rng: random.Random
    free: list[set[int]]
    down: list[bool]
    released: list[int]
    running: dict[int, EmulatedRun] = field(default_factory=dict)
    done: list[EmulatedRun] = field(default_factory=list)
    events: list[tuple[int, int, int, int | EmulatedJob]] = field(default_factory=list)
    count: int = 0


# At one instant: jobs end, nodes go down, nodes come back, jobs arrive.
_END, _DRAIN, _DOWN, _UP, _SUBMIT = range(5)


def place_jobs(plan: SitePlan, cluster: Cluster, jobs: Iterable[EmulatedJob]) -> list[EmulatedRun]:
    """Place jobs; return every run until the plan's horizon, in order of start."""
    count = len(cluster.nodes)
    state = _State(
        plan=plan,
        cluster=cluster,
        rng=plan.rng("placement", cluster.name),
        free=[set(range(PROCESSORS)) for _ in range(count)],
        down=[False] * count,
        released=[0] * count,
    )
    # Jobs that wait for whole nodes, and for shared ones, each with the number of its next start.
    queues: dict[bool, deque[tuple[EmulatedJob, int]]] = {True: deque(), False: deque()}
    for job in jobs:
        if job.deleted_queued is None:
            _schedule(state, job.submitted, _SUBMIT, job)
    for position, node in enumerate(cluster.nodes):
        for outage in node.outages:
            _schedule(state, outage.down - _DRAINED_S, _DRAIN, position)
            _schedule(state, outage.down, _DOWN, position)
            _schedule(state, outage.up + _DRAINED_S, _UP, position)
    while state.events and state.events[0][0] < plan.horizon - _START_DELAY_S:
        now, kind, _, what = heapq.heappop(state.events)
        if isinstance(what, EmulatedJob):
            queues[what.user.whole_nodes].append((what, 1))
        elif kind == _END:
            run = state.running.get(what)
            if run is not None:
                _release(state, what, run)
                state.done.append(run)
        elif kind == _DRAIN:
            state.down[what] = True
        elif kind == _DOWN:
            for job in reversed(_kill_on(state, what, now)):
                queues[job.user.whole_nodes].appendleft((job, 2))
        else:
            state.down[what] = False
        if not state.events or state.events[0][0] > now:
            for whole, queue in queues.items():
                _start_waiting(state, cluster.whole_nodes if whole else range(cluster.shared), queue, now)
    state.done += [replace(run, end=None, exit_status=0) for run in state.running.values()]
    return sorted(state.done, key=lambda run: (run.start, run.job.number, run.job.member or 0))


def _schedule(state: _State, when: int, kind: int, what: int | EmulatedJob) -> None:
    heapq.heappush(state.events, (when, kind, state.count, what))
    state.count += 1


def _start_waiting(state: _State, nodes: range, queue: deque[tuple[EmulatedJob, int]], now: int) -> None:
    while queue:
        job, start_count = queue[0]
        chosen = _choose(state, nodes, job)
        if chosen is None:
            return
        queue.popleft()
        run = _start(state, job, start_count, now + _START_DELAY_S, chosen)
        key = state.count
        state.running[key] = run
        assert run.end is not None
        _schedule(state, run.end, _END, key)


def _choose(state: _State, nodes: range, job: EmulatedJob) -> list[int] | None:
    """Choose nodes for ``job``: the longest idle for a whole-node job, the fullest that fit for a smaller one.

    Memory needs no check: a full node of the largest jobs takes three quarters of it.
    """
    wanted = job.demand.processors_per_node
    gigabit = job.demand.application.gigabit
    fitting = [
        node
        for node in nodes
        if not state.down[node]
        and len(state.free[node]) >= wanted
        and (state.cluster.nodes[node].gigabit or not gigabit)
    ]
    if len(fitting) < job.demand.nodes:
        return None
    if wanted == PROCESSORS:
        fitting.sort(key=lambda node: (state.released[node], node))
    else:
        fitting.sort(key=lambda node: (len(state.free[node]), node))
    return sorted(fitting[: job.demand.nodes])


def _start(state: _State, job: EmulatedJob, start_count: int, start: int, chosen: list[int]) -> EmulatedRun:
    rng, demand = state.rng, job.demand
    places = []
    weights = [rng.uniform(0.92, 1.08) for _ in chosen]
    mean = sum(weights) / len(weights)
    for rank, (node, weight) in enumerate(zip(chosen, weights, strict=True)):
        slots = tuple(sorted(state.free[node])[: demand.processors_per_node])
        state.free[node].difference_update(slots)
        larger = demand.bandwidth_bps / 8 * len(slots) * weight / mean
        smaller = larger * demand.application.out_per_in * rng.uniform(0.95, 1.0)
        # The first of several nodes receives data from the others; a single node reads its input.
        gathers = rank == 0 or rng.random() < 0.5
        received, sent = (larger, smaller) if gathers else (smaller, larger)
        places.append(Place(node, slots, received, sent, demand.memory_bytes * len(slots)))
    length, exit_status = _length(rng, job)
    lost = frozenset(
        (node, event) for node in chosen for event in ("start", "end") if rng.random() < state.plan.faults.lost_marks
    )
    return EmulatedRun(job, start, start + length, tuple(places), start_count, exit_status, lost_marks=lost)


def _length(rng: random.Random, job: EmulatedJob) -> tuple[int, int]:
    """Draw run time and exit status, without outages of the nodes."""
    if job.deleted_after_s is not None and job.deleted_after_s < job.walltime_s:
        return job.deleted_after_s, DELETED_EXIT
    if job.demand.runtime_s > job.walltime_s:
        return job.walltime_s + rng.randrange(2, 46), WALLTIME_EXIT
    return job.demand.runtime_s, job.exit_status


def _release(state: _State, key: int, run: EmulatedRun) -> None:
    del state.running[key]
    assert run.end is not None
    for place in run.places:
        state.free[place.node].update(place.slots)
        state.released[place.node] = run.end


def _kill_on(state: _State, node: int, now: int) -> list[EmulatedJob]:
    """End the jobs on ``node``; return those to be queued again."""
    again = []
    for key, run in list(state.running.items()):
        if all(place.node != node for place in run.places):
            continue
        requeued = run.job.rerunnable and run.start_count == 1
        killed = replace(run, end=now, exit_status=KILLED_EXIT, requeued=requeued, killed_on=node)
        _release(state, key, killed)
        state.done.append(killed)
        if requeued:
            again.append(run.job)
    return again


def exclusive_runs(runs: Iterable[EmulatedRun]) -> set[tuple[str, int]]:
    """Return job id and start of the runs that never shared their nodes."""
    stays: dict[int, list[EmulatedRun]] = {}
    for run in runs:
        for place in run.places:
            stays.setdefault(place.node, []).append(run)
    shared: set[tuple[str, int]] = set()
    for on_node in stays.values():
        latest: EmulatedRun | None = None
        for run in sorted(on_node, key=lambda one: one.start):
            if latest is not None and (latest.end is None or latest.end > run.start):
                shared |= {(latest.job.id, latest.start), (run.job.id, run.start)}
            if latest is None or (latest.end is not None and (run.end is None or run.end > latest.end)):
                latest = run
    return {(run.job.id, run.start) for run in runs} - shared
