"""Waiting jobs in order, searched for those that could start without examining every one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from jobsight_scheduler.policies.placement import NEVER, Placement

BLOCK = 256
CLASSES = 128


class BlockQueue:
    """Jobs ordered by ``key`` (by default in order of arrival), in blocks of at most ``2 * BLOCK``; the first block is
    empty only if all are.

    Up to two blocks of jobs, as in real traces, it is a plain list. Beyond that a table has, for each class of needs,
    the shortest job of each block that needs as much or less, to skip blocks in which nothing fits. Removing jobs
    leaves it too optimistic until the next search of the block.
    """

    half = BLOCK

    def __init__(
        self, needs: Sequence[int], lengths: Sequence[float], key: Callable[[int], tuple[float, int]] | None = None
    ) -> None:
        self._needs, self._lengths, self._key = needs, lengths, key
        self.blocks: list[list[int]] = [[]]
        distinct = sorted(set(needs))
        step = -(-len(distinct) // CLASSES) or 1
        self._class = [0]  # processors -> class of the greatest need that is not above; 0 if there is none
        for i, need in enumerate(distinct):
            self._class += [self._class[-1]] * (need - len(self._class)) + [i // step + 1]
        self._shortest = np.full((self._class[-1] + 1, 1), NEVER)
        self._stale = {0}

    def __iter__(self) -> Iterator[int]:
        for block in self.blocks:
            yield from block

    def add(self, job: int) -> None:
        """Put ``job`` in its place."""
        blocks = self.blocks
        i = len(blocks) - 1
        if self._key is None:
            blocks[i].append(job)
        else:
            place = self._key(job)
            i = self._block_of(place)
            blocks[i].insert(bisect_left(blocks[i], place, key=self._key), job)
        if i:
            self._enter(job, i)
        if len(blocks[i]) > 2 * self.half:
            blocks[i : i + 1] = [blocks[i][: self.half], blocks[i][self.half :]]
            self._shortest = np.insert(self._shortest, i, -NEVER, axis=1)
            self._shortest[:, i + 1] = -NEVER
            self._stale = {k + (k > i) for k in self._stale} | {i, i + 1}

    def pop(self) -> int:
        """Take out the first."""
        job = self.blocks[0].pop(0)
        self._tidy(0)
        return job

    def remove(self, job: int) -> None:
        """Take out ``job``, from a queue with a key."""
        self.take(self._block_of(self._place(job)), [job])

    def take(self, i: int, jobs: Iterable[int]) -> bool:
        """Take ``jobs`` out of block ``i``; return whether the block is gone, and its number another's."""
        block = self.blocks[i]
        for job in jobs:
            block.remove(job)
        self._stale.add(i)
        return self._tidy(i)

    def hopeful(self, i: int, now: float, machine: Placement[Any]) -> int:
        """Return the first block from ``i`` on in which a job may fit into the ``room`` of the machine; block 0 always
        counts, -1 is the end.
        """
        if i == 0:
            return 0
        until, last = machine.shadow_s, len(self._class) - 1
        free, spare = machine.room()
        within, beyond = self._class[min(free, last)], self._class[min(free, spare, last)]
        hope = (now + self._shortest[within, i:] <= until) | (self._shortest[beyond, i:] < NEVER)
        for k in (np.flatnonzero(hope) + i).tolist():
            if k in self._stale:
                self._refresh(k)
            if now + self._shortest[within, k] <= until or self._shortest[beyond, k] < NEVER:
                return int(k)
        return -1

    def _place(self, job: int) -> tuple[float, int]:
        if self._key is None:
            raise TypeError("a queue without a key cannot find its jobs")
        return self._key(job)

    def _enter(self, job: int, i: int) -> None:
        """Note that ``job`` is in block ``i``."""
        column = self._shortest[self._class[self._needs[job]] :, i]
        np.minimum(column, self._lengths[job], out=column)

    def _block_of(self, place: tuple[float, int]) -> int:
        key, blocks = self._key, self.blocks
        if key is None or len(blocks) == 1:
            return 0
        return max(0, bisect_right(blocks, place, key=lambda block: key(block[0])) - 1)

    def _refresh(self, i: int) -> None:
        classes, needs, lengths = self._class, self._needs, self._lengths
        column = [NEVER] * len(self._shortest)
        for job in self.blocks[i]:
            row = classes[needs[job]]
            if lengths[job] < column[row]:
                column[row] = lengths[job]
        self._shortest[:, i] = list(accumulate(column, min))
        self._stale.discard(i)

    def _tidy(self, i: int) -> bool:
        if self.blocks[i] or len(self.blocks) == 1:
            return False
        del self.blocks[i]
        self._shortest = np.delete(self._shortest, i, axis=1)
        self._stale = {k - (k > i) for k in self._stale if k != i}
        return True
