"""Nodes that jobs share: processors and memory are two resources of one placement, and too little memory kills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.question import Question
from jobsight_scheduler.policies.placement import NEVER, Placement
from jobsight_scheduler.simulator.event_loop import MakePolicy, Simulation
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE, Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Where = tuple[Ints, Floats]
"""Nodes, and the processors on each."""


UNLIMITED = 1e18
"""Memory of a node in bytes that never runs out."""
MIB = 2.0**20
_CLASS = re.compile(r"(\d+)x(\d+(?:\.\d+)?)M")


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """``processors`` and ``memory_bytes`` of each node, shape (nodes,)."""

    processors: Floats
    memory_bytes: Floats

    @classmethod
    def of(cls, classes: str) -> Self:
        """Return nodes of one processor from text such as ``512x32M,512x24M``.

        Raises:
            ValueError: the text is malformed.
        """
        memory: list[float] = []
        for part in classes.split(","):
            match = _CLASS.fullmatch(part.strip())
            if match is None or not 0 < int(match[1]) <= LARGEST_MACHINE or not float(match[2]):
                raise ValueError(f"node class {part.strip()!r}: give COUNTxMEMORYM, such as 512x32M,512x24M")
            memory += [float(match[2]) * MIB] * int(match[1])
        return cls(np.ones(len(memory)), np.array(memory))

    def room(self, each: float) -> Floats:
        """Return the processors of a job with ``each`` bytes per processor that fit on each node."""
        return np.minimum(self.processors, self.memory_bytes // each) if each else self.processors


class SharedNodes(Placement[Where]):
    """Jobs take any processors of any nodes, and with each processor ``memory_of`` the job, in bytes.

    A job goes to the node that it fills best; if none has room, to the emptiest ones.
    """

    def __init__(self, nodes: NodeSizes, work: Workload, memory_of: list[float]) -> None:
        super().__init__(work.processors.tolist(), work.estimate_s.tolist())
        self.nodes = NodeSizes(nodes.processors.copy(), nodes.memory_bytes.copy())  # the free part
        self.free, self.memory_of = int(nodes.processors.sum()), memory_of
        self.where: dict[int, tuple[Ints, Floats, float]] = {}
        self._later, self._room, self._head_each, self._spare = self.nodes, nodes.processors, 0.0, 0.0

    def find(self, job: int) -> Where | None:
        need = self.processors[job]
        if need > self.free:
            return None
        room = self.nodes.room(self.memory_of[job])
        enough = np.flatnonzero(room >= need)
        if len(enough):
            return enough[[np.argmin(room[enough])]], np.array([float(need)])
        if room.sum() < need:
            return None
        order = np.argsort(-room, kind="stable")
        so_far = np.cumsum(room[order])
        last = int(np.searchsorted(so_far, need))
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

    def give(self, job: int) -> None:
        place, count, each = self.where.pop(job)
        self.nodes.processors[place] += count
        self.nodes.memory_bytes[place] += count * each
        self.free += self.processors[job]

    def reserve(self, head: int) -> None:
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
        if now + self.estimate_s[job] <= self.shadow_s:
            return True
        place, count = where
        later, each = self._later, self.memory_of[job]
        less = NodeSizes(later.processors[place] - count, later.memory_bytes[place] - count * each)
        room = less.room(self._head_each)
        lost = float((self._room[place] - room).sum())
        if lost > self._spare:
            return False
        self._spare -= lost
        later.processors[place], later.memory_bytes[place] = less.processors, less.memory_bytes
        self._room[place] = room
        return True

    def fill(self, now: float, jobs: Iterable[int]) -> list[int]:
        found = []
        too_many: dict[float, int] = {}  # memory -> processors for which there was no room in this pass
        for job in jobs:
            need, each = self.processors[job], self.memory_of[job]
            if need > self.free or need >= too_many.get(each, NEVER):
                continue
            where = self.find(job)
            if where is None:
                too_many[each] = need
            elif self.keeps(now, job, where):
                self.start(now, job, where)
                found.append(job)
        return found

    def room(self) -> Sequence[tuple[int, int]]:
        return ((self.free, self.free),)


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
        machine = SharedNodes(nodes, work, self._memory_of)
        super().__init__(work, machine.free, make_policy, questions, machine)
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
