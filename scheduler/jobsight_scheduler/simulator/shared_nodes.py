"""Nodes that jobs share: processors and memory are two resources of one placement, and too little memory kills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_predictor.question import Question
from jobsight_scheduler.policies.placement import NEVER, Placement
from jobsight_scheduler.simulator.event_loop import MakePolicy, Simulation
from jobsight_scheduler.workload.canonical import Workload

Where = tuple[Integers, Floats]
"""Nodes, and the processors on each."""


UNLIMITED = 1e18
"""Memory of a node in bytes that never runs out."""


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """``processors`` and ``memory_bytes`` of each node, shape (nodes,); whole numbers, so that sums are exact."""

    processors: Floats
    memory_bytes: Floats

    def room(self, each: float) -> Floats:
        """Return the processors of a job with ``each`` bytes per processor that fit on each node."""
        return np.minimum(self.processors, np.floor(self.memory_bytes / each)) if each else self.processors


class SharedNodes(Placement[Where]):
    """Jobs take any processors of any nodes, and with each processor ``memory_of`` the job, in whole bytes.

    A job goes to the node that it fills best; if none has room, to the emptiest ones.
    """

    def __init__(self, nodes: NodeSizes, work: Workload, memory_of: list[float]) -> None:
        super().__init__(work.processors.tolist(), work.estimate_s.tolist())
        self.nodes = NodeSizes(nodes.processors.copy(), nodes.memory_bytes.copy())  # the free part
        self.free, self.memory_of = int(nodes.processors.sum()), memory_of
        self.where: dict[int, tuple[Integers, Floats, float]] = {}
        # By memory and processors, until a job starts or ends: many waiting jobs are alike.
        self._found: dict[tuple[float, int], Where | None] = {}
        self._delaying: set[tuple[float, int]] = set()  # they would delay the head
        self._head: int | None = None  # its reservation is still to be computed
        self._later, self._room, self._head_each, self._spare = self.nodes, nodes.processors, 0.0, 0.0

    def find(self, job: int) -> Where | None:
        need, each = self.processors[job], self.memory_of[job]
        if need > self.free:
            return None
        if (each, need) not in self._found:
            self._found[each, need] = self._find(each, need)
        return self._found[each, need]

    def _find(self, each: float, need: int) -> Where | None:
        room = self.nodes.room(each)
        (enough,) = (room >= need).nonzero()
        if len(enough):
            return enough[[room[enough].argmin()]], np.array([float(need)])
        if room.sum() < need:
            return None
        order = (-room).argsort(kind="stable")
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
        need, each = self.processors[head], self.memory_of[head]
        later = NodeSizes(self.nodes.processors.copy(), self.nodes.memory_bytes.copy())
        room, shadow = later.room(each).copy(), NEVER
        total = float(room.sum())
        for end, job in self.expected:
            if end > shadow:
                break
            place, count, of_each = self.where[job]
            later.processors[place] += count
            later.memory_bytes[place] += count * of_each
            more = NodeSizes(later.processors[place], later.memory_bytes[place]).room(each)
            total += float((more - room[place]).sum())
            room[place] = more
            if total >= need:
                shadow = end
        self._later, self._room, self._head_each = later, room, each
        self.shadow_s, self._spare = shadow, total - need

    def keeps(self, now: float, job: int, where: Where) -> bool:
        if self._head is not None:
            self._reserve(self._head)
            self._head = None
        if now + self.estimate_s[job] <= self.shadow_s:
            return True
        place, count = where
        later, each = self._later, self.memory_of[job]
        if (each, self.processors[job]) in self._delaying:
            return False
        less = NodeSizes(later.processors[place] - count, later.memory_bytes[place] - count * each)
        room = less.room(self._head_each)
        lost = float((self._room[place] - room).sum())
        if lost > self._spare:
            self._delaying.add((each, self.processors[job]))
            return False
        self._spare -= lost
        later.processors[place], later.memory_bytes[place] = less.processors, less.memory_bytes
        self._room[place] = room
        return True

    def room(self) -> tuple[int, int]:
        return self.free, self.free


class SharedSimulation(Simulation):
    """A run of ``work`` on ``nodes``. ``attempts``: by job, the bytes per processor to reserve, and those after each
    time that it was too little; the last is enough. ``used_bytes`` per processor is NaN where unknown.

    A job that needs more than it got is killed after a uniformly drawn part of its run time, and submitted again.
    """

    def __init__(
        self,
        work: Workload,
        nodes: NodeSizes,
        make_policy: MakePolicy,
        questions: Sequence[Question],
        attempts: Sequence[Sequence[float]],
        used_bytes: Floats,
    ) -> None:
        self._attempts, self._used = attempts, used_bytes.tolist()
        self._part: list[float] = np.random.default_rng(0).random(len(work)).tolist()
        self._most = [len(amounts) - 1 for amounts in attempts]
        self.failures = [0] * len(work)
        self._memory_of = [amounts[0] for amounts in attempts]
        is_limited = bool((nodes.memory_bytes < UNLIMITED).any())
        machine = SharedNodes(nodes, work, self._memory_of) if is_limited else None
        super().__init__(work, int(nodes.processors.sum()), make_policy, questions, machine)
        self._lasts, self._leave = self._begin, self._end

    def _fails(self, job: int) -> bool:
        return self._used[job] > self._memory_of[job] and self.failures[job] < self._most[job]

    def _begin(self, job: int) -> float:
        return self._run[job] * self._part[job] if self._fails(job) else self._run[job]

    def _end(self, now: float, job: int) -> Sequence[int]:
        if not self._fails(job):
            return self.policy.ended(now, job)
        begun = list(self.policy.ended(now, job))
        self.failures[job] += 1
        self._memory_of[job] = self._attempts[job][self.failures[job]]
        return [*begun, *self.policy.submitted(now, job)]
