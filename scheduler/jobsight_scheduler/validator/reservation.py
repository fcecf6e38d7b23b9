"""EASY's promise: the first job in the queue starts no later than the running jobs' estimates allow."""

from __future__ import annotations

import numpy as np

from jobsight_scheduler.table import JobTable

from .basics import NEAR_S, BrokenRule
from .queue_order import became_head


def check_reservation(table: JobTable, capacity: int) -> list[BrokenRule]:
    """The head's reservation is made when it reaches the head, from what runs then, including jobs that start at that
    very instant.
    """
    head = became_head(table)
    starting = np.argsort(table.start_s, kind="stable").tolist()
    starts, ends = table.start_s.tolist(), table.end_s.tolist()
    expected = (table.start_s + table.estimate_s).tolist()
    processors = table.processors.tolist()
    running: list[int] = []
    k = 0
    found = []
    heads = np.flatnonzero(table.start_s > head)
    for i in heads[np.argsort(head[heads], kind="stable")].tolist():
        now = head[i]
        while k < len(starting) and starts[starting[k]] <= now:
            running.append(starting[k])
            k += 1
        running = [job for job in running if ends[job] > now]
        free = capacity - sum(processors[job] for job in running)
        reserved = now
        for job in sorted(running, key=expected.__getitem__):
            if free >= processors[i]:
                break
            free += processors[job]
            reserved = max(now, expected[job])
        if starts[i] > reserved + NEAR_S:
            message = f"came first in the queue at {now:g} and was promised {reserved:g}, but starts at {starts[i]:g}"
            found.append(BrokenRule("reservation", int(table.job[i]), message))
    return found
