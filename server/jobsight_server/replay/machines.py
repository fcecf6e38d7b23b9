"""The machines of a site, and their finished jobs with what was known of each at its submission."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, and_, select

from jobsight_scheduler.simulator.shared_nodes import UNLIMITED, NodeSizes
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE
from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.ground.amounts import MIB, memory_bytes
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.kinds import WAITED_S, kinds_of
from jobsight_server.replay.record import SUBMITTED, AssumedSize, assumed_size, held_runs, record_ends
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.engine import rows_of
from jobsight_server.storage.schema import job_nodes, jobs, nodes, profiles
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_WALLTIME

Place = tuple[str, str]
"""Cluster, and a queue or a node."""
Held = tuple[float, float, int]
"""Start, end and processors of a job on a node."""


class MachineJob(NamedTuple):
    """A run; memory in bytes per processor. ``limit_s`` and ``requested_bytes`` are the user's request.

    ``forecast_s``, the forecast's bound ``bound_s``, and the ``recommended`` memory of each attempt are as of its
    submission. It ``counts`` if it ended in the record, and otherwise only holds its processors.
    """

    id: int
    cluster: str
    queue: str
    user: str
    processors: int
    submitted: float
    start: float
    end: float
    limit_s: float | None
    requested_bytes: float | None
    used_bytes: float | None
    forecast_s: float | None = None
    recommended: Sequence[float] = ()
    bound_s: float | None = None
    counts: bool = True
    application: str = ""
    kind: int = 0  # of the machine's nodes


@dataclass(frozen=True, slots=True)
class Machine:
    """Queues that share nodes, and their jobs in order of submission.

    ``forecast`` adds to jobs of a trace what would have been forecast at their submission, which takes minutes; those
    of a database have it.
    """

    name: str
    nodes: NodeSizes
    jobs: list[MachineJob]
    has_known_nodes: bool = True  # otherwise one node has all processors
    assumed: AssumedSize | None = None  # where nothing states the number of processors
    forecast: Callable[[Sequence[MachineJob]], list[MachineJob]] = list


def site_machines(connection: Connection, part: Part) -> list[Machine]:
    """Return the machines on which jobs of this part ran, by name.

    A node has the processors that its agent reports, or the most that were in use at once. Jobs of queues without known
    nodes run on one machine of their cluster's, of the ``assumed_size``.

    Raises:
        UserError: there are no jobs.
    """
    found = _jobs(connection, part)
    if not any(job.counts for job in found):
        raise UserError("no finished job with a known number of processors in this time")
    of_job: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for row in rows_of(connection, select(job_nodes), job_nodes.c.run_id, [job.id for job in found]):
        of_job[row.run_id].append((row.node, row.processors))
    with_nodes = {(job.cluster, job.queue) for job in found if job.id in of_job}
    queue_of = {job.id: (job.cluster, job.queue if (job.cluster, job.queue) in with_nodes else "") for job in found}
    held: dict[Place, dict[Place, list[Held]]] = defaultdict(lambda: defaultdict(list))  # by queue and node
    until = record_ends(connection, part)
    for job in found:
        # A requeued run may be on record for longer than it held its processors: only its width is sure.
        end = job.end if job.counts or job.end == until[job.cluster] else job.start
        for node, processors in of_job.get(job.id, ()) if queue_of[job.id] in with_nodes else [("", job.processors)]:
            held[queue_of[job.id]][job.cluster, node].append((job.start, end, processors))
    columns = (nodes.c.cluster, nodes.c.name, nodes.c.cpus, nodes.c.memory_total_bytes)
    reported = {(cluster, name): (cpus, memory) for cluster, name, cpus, memory in connection.execute(select(*columns))}
    machines = []
    for queues in _sharing({queue: set(on_nodes) for queue, on_nodes in held.items()}):
        on_node: dict[Place, list[Held]] = defaultdict(list)
        for queue in queues:
            for place, intervals in held[queue].items():
                on_node[place] += intervals
        used = {place: assumed_size(*np.array(intervals).T) for place, intervals in on_node.items()}
        assumed = used.get((min(queues)[0], ""))
        sizes = [(*reported.get(place, (0, None)), of.most) for place, of in used.items()]
        if assumed is not None:
            sizes = [(assumed.processors, None, 0)]
        known = NodeSizes(
            np.array([float(max(cpus, most)) for cpus, _, most in sizes]),
            np.array([float(memory or UNLIMITED) for _, memory, _ in sizes]),
        )
        own = [job for job in found if queue_of[job.id] in queues]
        if assumed is None:
            number = {place: i for i, place in enumerate(used)}
            ran_on = [[number[job.cluster, node] for node, _ in of_job.get(job.id, ())] for job in own]
            waited = [job.start - job.submitted > WAITED_S for job in own]
            kinds, masks = kinds_of([(job.queue, job.application) for job in own], ran_on, waited, len(used))
            if not masks.all():
                known = replace(known, kinds=masks)
                own = [job._replace(kind=kind) for job, kind in zip(own, kinds, strict=True)]
        name = f"{min(queues)[0]} {'+'.join(sorted(queue for _, queue in queues))}".strip()
        machines.append(Machine(name, known, own, assumed is None, assumed))
    return sorted(machines, key=lambda machine: machine.name)


def counted_nodes(processors: int) -> NodeSizes:
    """Return one node in place of unknown ones, of these processors and of memory that never runs out."""
    return NodeSizes(np.array([float(processors)]), np.array([UNLIMITED]))


def nodes_of_classes(classes: str) -> NodeSizes:
    """Return nodes of one processor from text such as ``512x32M,512x1.5G``.

    Raises:
        ValueError: the text is malformed.
    """
    memory: list[float] = []
    for part in map(str.strip, classes.split(",")):
        count, _, each = part.partition("x")
        try:
            if not 0 < int(count) <= LARGEST_MACHINE or memory_bytes(each) < MIB:
                raise ValueError
        except ValueError:
            raise ValueError(f"node class {part!r}: give COUNTxMEMORY, such as 512x32M,512x1.5G") from None
        memory += [math.floor(memory_bytes(each))] * int(count)
    return NodeSizes(np.ones(len(memory)), np.array(memory, dtype=np.float64))


def _jobs(connection: Connection, part: Part) -> list[MachineJob]:
    memory, runtime = profiles.alias(), profiles.alias()
    query = (
        select(
            jobs.c.id, jobs.c.cluster, jobs.c.job_id, jobs.c.state, jobs.c.queue, jobs.c.user, jobs.c.processors,
            jobs.c.start, jobs.c.end, SUBMITTED.label("submitted"), ASKED_WALLTIME.label("limit_s"),
            ASKED_MEMORY.label("asked_bytes"), memory.c.value.label("used"), runtime.c.forecast, memory.c.bound,
            memory.c.attempts, jobs.c.application, runtime.c.bound.label("time_bound"),
        )
        .outerjoin(memory, and_(memory.c.run_id == jobs.c.id, memory.c.metric == "memory"))
        .outerjoin(runtime, and_(runtime.c.run_id == jobs.c.id, runtime.c.metric == "runtime"))
    )  # fmt: skip
    found = [
        MachineJob(
            row.id,
            row.cluster,
            row.queue or "",
            row.user,
            row.processors,
            held.submitted,
            row.start,
            held.end,
            row.limit_s or None,
            row.asked_bytes / row.processors if row.asked_bytes else None,
            row.used,
            row.forecast,
            recommended_requests(row.bound, row.attempts),
            row.time_bound,
            held.counts,
            row.application or "",
        )
        for row, held in held_runs(connection, query, part)
    ]
    return sorted(found, key=lambda job: (job.submitted, job.id))


def _sharing(nodes_of: dict[Place, set[Place]]) -> list[set[Place]]:
    """Return the queues, in groups that have a node in common."""
    groups: list[tuple[set[Place], set[Place]]] = []
    for queue, own in nodes_of.items():
        linked = [group for group in groups if group[1] & own]
        groups = [group for group in groups if group not in linked]
        groups.append(({queue}.union(*(of for of, _ in linked)), own.union(*(others for _, others in linked))))
    return [queues for queues, _ in groups]
