"""EASY backfilling (Lifka 1995): the head of the queue has a reservation, others may jump ahead if they keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .base import JobRequests
from .block_queue import BlockQueue
from .expected_ends import ExpectedEndsPolicy

UNKNOWN = -1.0


class Easy(ExpectedEndsPolicy):
    """The head of the queue starts at ``shadow_s`` at the latest, when enough estimates have run out; ``spare``
    processors will then be left over. Another job starts now if it fits, and either is over by the shadow time or
    takes spare processors only.

    Both are valid until a job ends or the head changes: jobs that start by these rules move neither. So a submission
    concerns only the new job; the whole queue is considered when a job has ended, or its estimate has run out.
    """

    name: ClassVar[str] = "easy"

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.queue = BlockQueue(self.processors, self.estimate_s)
        self.shadow_s = UNKNOWN
        self.spare = 0

    def submitted(self, now: float, job: int) -> Sequence[int]:
        if self.expected and self.expected[0][0] <= now:
            self._expire(now)
            self.queue.add(job)
            return self._pass(now)
        need = self.processors[job]
        if need > self.free:
            self.queue.add(job)
            return ()
        waiting = self.queue.blocks[0]
        if waiting:
            if self.shadow_s == UNKNOWN:
                self._reserve(waiting[0])
            if now + self.estimate_s[job] > self.shadow_s:
                if need > self.spare:
                    self.queue.add(job)
                    return ()
                self.spare -= need
        self._start(now, job)
        return (job,)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self._end(now, job)
        return self._pass(now) if self.queue.blocks[0] else ()

    def _pass(self, now: float) -> list[int]:
        blocks, processors = self.queue.blocks, self.processors
        begun: list[int] = []
        while blocks[0] and processors[blocks[0][0]] <= self.free:
            begun.append(self.queue.pop())
            self._start(now, begun[-1])
        self.shadow_s = UNKNOWN
        if blocks[0] and self.free:
            self._reserve(blocks[0][0])
            begun += self._fill(now, self.queue)
        return begun

    def _reserve(self, head: int) -> None:
        self.shadow_s, self.spare = self._reservation(head)

    def _fill(self, now: float, line: BlockQueue) -> list[int]:
        """Starts jobs that fit, in the order of ``line``."""
        processors, estimate, until = self.processors, self.estimate_s, self.shadow_s
        free, spare = self.free, self.spare
        filled: list[int] = []
        i = 0
        while free and (i := line.hopeful(i, now, free, spare, until)) >= 0:
            found = []
            for job in line.blocks[i]:
                need = processors[job]
                if need > free:
                    continue
                if now + estimate[job] > until:
                    if need > spare:
                        continue
                    spare -= need
                free -= need
                found.append(job)
                if not free:
                    break
            if found:
                filled += found
                if line.take(i, found):
                    continue
            i += 1
        self.spare = spare
        for job in filled:
            self._start(now, job)
        return filled

    def state(self) -> dict[str, Any]:
        return {**super().state(), "queue": list(self.queue), "shadow_s": self.shadow_s, "spare": self.spare}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for job in state["queue"]:
            self.queue.add(job)
        self.shadow_s, self.spare = state["shadow_s"], state["spare"]
