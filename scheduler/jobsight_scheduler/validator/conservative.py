"""Conservative backfilling's promises: each job is promised a start at submission, which may only move earlier."""

from __future__ import annotations

import numpy as np

from jobsight_scheduler.table import JobTable

from .basics import BrokenRule


def check_promises(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Goes through the schedule and promises each job a start, in the plainest way: at its submission, from what runs
    (by estimate) and what was promised; at each end, for every waiting job in the order of the queue. No job may start
    later than its promise. Takes minutes if hundreds of jobs wait.
    """
    submits, starts, ends = table.submit_s.tolist(), table.start_s.tolist(), table.end_s.tolist()
    starting = sorted(range(len(table)), key=starts.__getitem__)
    ending: dict[float, list[int]] = {}
    for job in starting:
        ending.setdefault(ends[job], []).append(job)
    begun = came = 0
    plan = _Plan(table, capacity)
    waiting: dict[int, float] = {}
    found = []
    for now in sorted({*submits, *ends}):
        while begun < len(starting) and starts[starting[begun]] < now:
            job = starting[begun]
            begun += 1
            if waiting.pop(job, starts[job]) < starts[job]:
                message = f"was promised {plan.start(job):g}, but starts at {starts[job]:g}"
                found.append(BrokenRule("promise", int(table.job[job]), message))
            plan.put(job, starts[job])
        while came < len(table) and submits[came] <= now:
            waiting[came] = plan.promise(came, now)
            came += 1
        for job in sorted(ending.get(now, ()), key=lambda job: (starts[job], plan.numbers.get(job, 0))):
            plan.end(job)
            for queued, promise in list(waiting.items()):
                if promise > now:
                    waiting[queued] = plan.promise(queued, now)
    return found


class _Plan:
    """Start and expected end of each job that runs or is promised a start; ``numbers`` is the order of the promises,
    in which jobs of one instant start.
    """

    def __init__(self, table: JobTable, capacity: int) -> None:
        self._estimate, self._need = table.estimate_s.tolist(), table.processors.tolist()
        self._capacity = capacity
        self._held: dict[int, tuple[float, float]] = {}
        self.numbers: dict[int, int] = {}
        self._count = 0

    def start(self, job: int) -> float:
        """When ``job`` is to start."""
        return self._held[job][0]

    def put(self, job: int, start: float) -> None:
        """``job`` starts then."""
        self._held[job] = (start, start + self._estimate[job])

    def end(self, job: int) -> None:
        """``job`` is over."""
        self._held.pop(job, None)
        self.numbers.pop(job, None)

    def promise(self, job: int, now: float) -> float:
        """The earliest start from ``now`` on that leaves all others in place."""
        before = self._held.pop(job, None)
        held = {other: span for other, span in self._held.items() if span[1] > now}
        spans = np.array(list(held.values())).reshape(-1, 2)
        need = np.array([self._need[other] for other in held], dtype=np.int64)
        instants = np.unique(np.concatenate([[now], spans[:, 0], spans[:, 1]]))
        instants = instants[instants >= now]
        busy = ((spans[:, :1] <= instants) & (spans[:, 1:] > instants)).T @ need
        full = busy + self._need[job] > self._capacity
        start = now
        for at, until in zip(instants[full].tolist(), np.append(instants[1:], np.inf)[full].tolist(), strict=True):
            if at >= start + self._estimate[job]:
                break
            start = until
        self.put(job, start)
        if before is None or before[0] != start:
            self.numbers[job] = self._count
            self._count += 1
        return start
