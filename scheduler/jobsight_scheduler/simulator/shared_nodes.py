"""Nodes that jobs share: processors and memory are two resources of one placement, and too little memory kills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_predictor.question import Question
from jobsight_scheduler.policies.bounded import LimitedProcessors, UserLimits
from jobsight_scheduler.policies.placement import NEVER, Placement
from jobsight_scheduler.simulator.event_loop import MakePolicy, Simulation
from jobsight_scheduler.workload.canonical import Workload

Where = tuple[Integers, Floats]
"""Nodes, and the processors on each."""


UNLIMITED = 1e18
"""Memory of a node in bytes that never runs out."""


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """``processors`` and ``memory_bytes`` of each node, shape (nodes,); whole numbers, so that sums are exact.

    ``kinds``, shape (kinds, nodes), is 1 where a kind of jobs can run, and 0 elsewhere; without it, any can anywhere.
    """

    processors: Floats
    memory_bytes: Floats
    kinds: Floats | None = None

    def room(self, each: float, kind: int = 0) -> Floats:
        """Return the processors of a job of this kind with ``each`` bytes per processor that fit on each node."""
        room = np.minimum(self.processors, np.floor(self.memory_bytes / each)) if each else self.processors
        return room if self.kinds is None else room * self.kinds[kind]

    def copy(self) -> NodeSizes:
        """Return nodes that can change on their own."""
        return replace(self, processors=self.processors.copy(), memory_bytes=self.memory_bytes.copy())

    def at(self, place: Integers) -> NodeSizes:
        """Return a copy of the nodes with these numbers."""
        kinds = None if self.kinds is None else self.kinds[:, place]
        return NodeSizes(self.processors[place], self.memory_bytes[place], kinds)

    @property
    def limit_nothing(self) -> bool:
        """Return whether the nodes are no more than their processors."""
        return self.kinds is None and bool((self.memory_bytes >= UNLIMITED).all())


class SharedNodes(Placement[Where]):
    """Jobs take any processors of the nodes of their ``kind_of``, and with each ``memory_of`` the job, in whole bytes.

    A job goes to the node that it fills best; if none has room, to the emptiest ones; of equals, to those with the
    least free memory, as others may need more. Once the head of the queue has waited beyond its first reservation, as
    jobs outran their predictions, others are backfilled by their requests: else jobs that fit on fewer nodes starve.
    """

    def __init__(self, nodes: NodeSizes, work: Workload, memory_of: list[float], kind_of: Sequence[int] = ()) -> None:
        super().__init__(work.processors.tolist(), work.estimate_s.tolist())
        self.nodes = nodes.copy()  # the free part
        self.free, self.memory_of = int(nodes.processors.sum()), memory_of
        self.kind_of = kind_of or [0] * len(work)
        self.where: dict[int, tuple[Integers, Floats, float]] = {}
        # By memory, kind and processors, until a job starts or ends: many waiting jobs are alike.
        self._found: dict[tuple[float, int, int], Where | None] = {}
        self._delaying: set[tuple[float, int, int]] = set()  # they would delay the head
        self._head: int | None = None  # its reservation is still to be computed
        self._later, self._room, self._spare = self.nodes, nodes.processors, 0.0
        self._of_head = 0.0, 0  # memory and kind
        self._requested_s = self.estimate_s  # a policy that predicts has a list of its own
        self._promise = -1, NEVER  # the head, and its first reservation

    def find(self, job: int) -> Where | None:
        need, each, kind = self.processors[job], self.memory_of[job], self.kind_of[job]
        if need > self.free:
            return None
        if (each, kind, need) not in self._found:
            self._found[each, kind, need] = self._find(each, kind, need)
        return self._found[each, kind, need]

    def _find(self, each: float, kind: int, need: int) -> Where | None:
        room = self.nodes.room(each, kind)
        memory = self.nodes.memory_bytes
        (enough,) = (room >= need).nonzero()
        if len(enough):
            return enough[[np.lexsort((memory[enough], room[enough]))[0]]], np.array([float(need)])
        if room.sum() < need:
            return None
        order = np.lexsort((memory, -room))
        so_far = room[order].cumsum()
        last = int(so_far.searchsorted(need))
        taken = room[order[: last + 1]]
        taken[-1] -= so_far[last] - need
        return order[: last + 1], taken

    def take(self, job: int, where: Where) -> None:
        place, count = where
        each = self.memory_of[job]
        self.nodes.processors[place] -= count
        self.nodes.memory_bytes[place] -= count * each
        self.where[job] = place, count, each
        self.free -= self.processors[job]
        self._found.clear()
        self._delaying.clear()

    def give(self, job: int) -> None:
        place, count, each = self.where.pop(job)
        self.nodes.processors[place] += count
        self.nodes.memory_bytes[place] += count * each
        self.free += self.processors[job]
        self._found.clear()

    def reserve(self, head: int) -> None:
        self._head, self.shadow_s = head, NEVER  # most passes find no room for any job, and need no more
        self._delaying.clear()

    def _reserve(self, head: int) -> None:
        need, of_head = self.processors[head], (self.memory_of[head], self.kind_of[head])
        later = self.nodes.copy()
        room, shadow = later.room(*of_head).copy(), NEVER
        total = float(room.sum())
        for end, job in self.expected:
            if end > shadow:
                break
            place, count, of_each = self.where[job]
            later.processors[place] += count
            later.memory_bytes[place] += count * of_each
            more = later.at(place).room(*of_head)
            total += float((more - room[place]).sum())
            room[place] = more
            if total >= need:
                shadow = end
        self._later, self._room, self._of_head = later, room, of_head
        self.shadow_s, self._spare = shadow, total - need
        if self._promise[0] != head:
            self._promise = head, shadow

    def keeps(self, now: float, job: int, where: Where) -> bool:
        if self._head is not None:
            self._reserve(self._head)
            self._head = None
        lengths = self.estimate_s if now <= self._promise[1] else self._requested_s
        if now + lengths[job] <= self.shadow_s:
            return True
        place, count = where
        later, each = self._later, self.memory_of[job]
        alike = each, self.kind_of[job], self.processors[job]
        if alike in self._delaying:
            return False
        less = later.at(place)
        less.processors[:] -= count
        less.memory_bytes[:] -= count * each
        room = less.room(*self._of_head)
        lost = float((self._room[place] - room).sum())
        if lost > self._spare:
            self._delaying.add(alike)
            return False
        self._spare -= lost
        later.processors[place], later.memory_bytes[place] = less.processors, less.memory_bytes
        self._room[place] = room
        return True

    def room(self) -> tuple[int, int]:
        return self.free, self.free


class LimitedNodes(UserLimits, SharedNodes):
    """Nodes that jobs share, within limits of their users."""


class SharedSimulation(Simulation):
    """A run of ``work`` on ``nodes``. ``attempts``: by job, the bytes per processor to reserve, and those after each
    time that it was killed; the last is enough. ``limits``: the same of time, if it is limited. ``used_bytes`` per
    processor is NaN where unknown, ``kind_of`` that of ``nodes``. ``of_users``: the user of each job, and the most
    processors of each user at once.

    A job that needs more memory than it got is killed after a uniformly drawn part of its run time, one that needs more
    time at its limit; each is submitted again.
    """

    def __init__(
        self,
        work: Workload,
        nodes: NodeSizes,
        make_policy: MakePolicy,
        questions: Sequence[Question],
        attempts: Sequence[Sequence[float]],
        used_bytes: Floats,
        kind_of: Sequence[int] = (),
        limits: Sequence[Sequence[float]] = (),
        of_users: tuple[Sequence[int], Sequence[float]] | None = None,
    ) -> None:
        self._attempts, self._limits, self._used = attempts, limits, used_bytes.tolist()
        self._part: list[float] = np.random.default_rng(0).random(len(work)).tolist()
        self.failures = [0] * len(work)
        self._memory_of = [amounts[0] for amounts in attempts]
        if limits:
            work = replace(work, estimate_s=np.array([of[0] for of in limits]))
        capacity, nodes_of = int(nodes.processors.sum()), (nodes, work, self._memory_of, kind_of)
        machine: Placement[Any] | None = None if nodes.limit_nothing else SharedNodes(*nodes_of)
        if of_users is not None:
            counted = capacity, work.processors.tolist(), work.estimate_s.tolist()
            limited = LimitedProcessors(*counted) if nodes.limit_nothing else LimitedNodes(*nodes_of)
            limited.limit(*of_users)
            machine = limited
        super().__init__(work, capacity, make_policy, questions, machine)
        self._lasts, self._leave = self._begin, self._end

    def _killed_after(self, job: int) -> float:
        """Return the time after which the job is killed in this attempt; infinite if it ends."""
        killed, times = NEVER, self.failures[job]
        if self._used[job] > self._memory_of[job] and times < len(self._attempts[job]) - 1:
            killed = self._run[job] * self._part[job]
        if self._limits and times < len(self._limits[job]) - 1 and self._limits[job][times] < self._run[job]:
            killed = min(killed, self._limits[job][times])
        return killed

    def _begin(self, job: int) -> float:
        return min(self._run[job], self._killed_after(job))

    def _end(self, now: float, job: int) -> Sequence[int]:
        if self._killed_after(job) == NEVER:
            return self.policy.ended(now, job)
        begun = list(self.policy.ended(now, job))
        self.failures[job] = times = self.failures[job] + 1
        self._memory_of[job] = self._attempts[job][min(times, len(self._attempts[job]) - 1)]
        if self._limits:
            limit = self._limits[job][min(times, len(self._limits[job]) - 1)]
            for estimate_s in (self.policy.estimate_s, self.policy.machine.estimate_s):
                estimate_s[job] = limit  # type: ignore[index]
        return [*begun, *self.policy.submitted(now, job)]
