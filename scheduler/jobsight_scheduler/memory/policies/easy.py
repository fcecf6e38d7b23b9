"""EASY backfilling on nodes of several memory sizes: the head of the queue has a reservation, others may jump ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from jobsight_scheduler.memory.nodes import Taken
from jobsight_scheduler.memory.waiting_jobs import WaitingJobs

from .base import NEVER, PolicyInput, Start
from .expected_ends import MemoryExpectedEndsPolicy


class MemoryEasy(MemoryExpectedEndsPolicy):
    """The head starts when enough nodes of its class and above are expected to be free; ``spare`` of these will then
    be left over. Another job starts now if it fits, and either is over by then or takes only spare ones of them.

    Both are valid until a job ends: a submission concerns only the new job.
    """

    name = "easy"

    def __init__(self, given: PolicyInput) -> None:
        super().__init__(given)
        self.waiting = WaitingJobs(given)
        self._head_needs = 0
        self._shadow_s, self._spare = NEVER, 0

    def submitted(self, now: float, job: int) -> Sequence[Start]:
        needed = self.needed(job)
        if not self.waiting or (self.expected and self.expected[0][0] <= now):
            self._expire(now)
            self.waiting.add(job, needed)
            return self._pass(now)
        found = self._fits(now, job, needed)
        if found is None:
            self.waiting.add(job, needed)
            return ()
        self._start(now, job, found[2])
        return (found,)

    def ended(self, now: float, job: int, taken: Taken, *, returns: bool) -> Sequence[Start]:
        self._end(now, job, taken)
        self.waiting.learned(job)
        if returns:
            self.waiting.add(job, self.needed(job), returns=True)
        return self._pass(now)

    def _pass(self, now: float) -> list[Start]:
        nodes, count, waiting = self.nodes, self.count, self.waiting
        begun: list[Start] = []
        while waiting:
            head = waiting.head()
            needed = self.needed(head)
            if nodes.available(needed) < count[head]:
                waiting.reclassify(head, needed)
                self._reserve(head, needed)
                return begun + self._fill(now, head)
            waiting.remove(head)
            begun.append((head, needed, nodes.choose(needed, count[head])))
            self._start(now, head, begun[-1][2])
        return begun

    def _reserve(self, head: int, needed: int) -> None:
        """When the head can start at the latest, and how many nodes of its class and above will then be left over."""
        need, available, shadow = self.count[head], self.nodes.available(needed), NEVER
        for end, _, taken in self.expected:
            if end > shadow:
                break
            available += sum([count for place, count in taken if place >= needed])
            if available >= need:
                shadow = end
        self._head_needs, self._shadow_s, self._spare = needed, shadow, available - need

    def _fits(self, now: float, job: int, needed: int) -> Start | None:
        """The job with the nodes that it takes, if it may start now; deducts the spare nodes that it takes."""
        count = self.count[job]
        if self.nodes.available(needed) < count:
            return None
        taken = self.nodes.choose(needed, count)
        if now + self.estimate_s[job] > self._shadow_s:
            of_head = sum([n for place, n in taken if place >= self._head_needs])
            if of_head > self._spare:
                return None
            self._spare -= of_head
        return job, needed, taken

    def _fill(self, now: float, head: int) -> list[Start]:
        """Starts jobs that fit behind the head, in the order of the queue."""
        filled: list[Start] = []
        if not any(self.nodes.free):
            return filled
        classes = range(len(self.nodes.free))
        for job in merge(*[self._hopeful(now, needed) for needed in classes], key=self.waiting.place):
            if job != head and (found := self._fits(now, job, self.waiting.class_of[job])) is not None:
                self._start(now, job, found[2])
                filled.append(found)
                if not any(self.nodes.free):
                    break
        for job, _, _ in filled:
            self.waiting.remove(job)
        return filled

    def _hopeful(self, now: float, needed: int) -> Iterator[int]:
        """Waiting jobs that need this class and may fit, in order; free nodes shrink during the iteration."""
        queue, count = self.waiting.queues[needed], self.count
        free = self.nodes.free
        i = 0
        while available := sum(free[needed:]):
            # Nodes below the head's class are spare as well.
            i = queue.hopeful(i, now, available, self._spare + sum(free[needed : self._head_needs]), self._shadow_s)
            if i < 0:
                return
            for job in queue.blocks[i]:
                if count[job] <= available:
                    yield job
            i += 1
