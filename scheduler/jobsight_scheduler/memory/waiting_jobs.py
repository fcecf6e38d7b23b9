"""Waiting jobs by the class of nodes that each needs, which changes as jobs of their group end."""

from __future__ import annotations

from collections.abc import Iterator

from jobsight_scheduler.policies.block_queue import BlockQueue

from .policies.base import PolicyInput


class WaitingJobs:
    """A queue for each class, all in the same order: by submission, with returning jobs before all that wait.

    A job's need is determined when it joins, and again when a job of its group has ended: once for all jobs of a kind,
    since thousands may wait.
    """

    def __init__(self, given: PolicyInput) -> None:
        self._group, self._kind, self._needed = given.group, given.kinds(), given.needed
        self._place: dict[int, int] = {}  # position of each waiting job in the order
        self._returned = 0
        self.class_of: dict[int, int] = {}
        self._alike: dict[int, dict[int, dict[int, None]]] = {}  # group -> kind -> waiting jobs
        self.queues = [BlockQueue(given.count, given.estimate_s, self.place) for _ in given.nodes.memory_bytes]

    def __bool__(self) -> bool:
        return bool(self._place)

    def place(self, job: int) -> tuple[float, int]:
        """The job's position in the order."""
        return self._place[job], job

    def head(self) -> int:
        """The first of all; the queue must not be empty."""
        return min([queue.blocks[0][0] for queue in self.queues if queue.blocks[0]], key=self.place)

    def add(self, job: int, needed: int, *, returns: bool = False) -> None:
        """Puts the job at the end, or at the head if it ``returns``."""
        self._returned -= returns
        self._place[job] = self._returned if returns else job
        self.class_of[job] = needed
        self.queues[needed].add(job)
        self._alike.setdefault(self._group[job], {}).setdefault(self._kind[job], {})[job] = None

    def remove(self, job: int) -> None:
        """Takes the job out."""
        self.queues[self.class_of.pop(job)].remove(job)
        del self._place[job]
        kinds = self._alike[self._group[job]]
        alike = kinds[self._kind[job]]
        del alike[job]
        if not alike:
            del kinds[self._kind[job]]

    def reclassify(self, job: int, needed: int) -> None:
        """Sets the class that the job needs."""
        if self.class_of[job] != needed:
            self.queues[self.class_of[job]].remove(job)
            self.class_of[job] = needed
            self.queues[needed].add(job)

    def learned(self, ended: int) -> list[int]:
        """Updates the needs of the jobs in the group of ``ended``; returns those that now need another class."""
        changed = []
        for alike in self._alike.get(self._group[ended], {}).values():
            # A failed job is asked for separately.
            same: int | None = None
            for job in alike:
                if self._place[job] < 0:
                    needed = self._needed(job)
                else:
                    needed = same = self._needed(job) if same is None else same
                if needed != self.class_of[job]:
                    changed.append(job)
                    self.reclassify(job, needed)
        return changed

    def ordered(self) -> Iterator[int]:
        """All, in order."""
        return iter(sorted(self._place, key=self.place))
