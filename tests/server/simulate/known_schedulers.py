"""Records of one machine under schedulers that are known, by plain lists: nothing of the simulator is used."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

PROCESSORS = 32
HOUR_S, DAY_S = 3600, 86_400
WEEKS = 6


class Known(NamedTuple):
    """A job of a generated log; times in seconds."""

    number: int
    user: str
    queue: str
    submitted: int
    run_s: int
    limit_s: int
    processors: int
    hold_s: int


def generated(seed: int, load: float = 0.8) -> list[Known]:
    """Return six weeks of jobs of ten users in two queues, busier by day and in some weeks than in others."""
    rng = random.Random(seed)
    jobs: list[Known] = []
    busy = [rng.uniform(0.6, 1.4) for _ in range(WEEKS)]
    now = 0.0
    while True:
        week, hour = int(now // (7 * DAY_S)), now % DAY_S / HOUR_S
        rate = load * busy[min(week, WEEKS - 1)] * (1.6 if 8 <= hour < 20 else 0.4)
        now += rng.expovariate(rate * PROCESSORS / (6.0 * 2.6 * HOUR_S))
        if now >= WEEKS * 7 * DAY_S:
            return jobs
        run = max(60, int(rng.lognormvariate(8.4, 1.1)))
        limit = -(-int(run * rng.uniform(1.1, 4.0)) // 600) * 600
        user, width = rng.choice("aaaabbcdefghij"), rng.choice((1, 1, 2, 4, 8, 16))
        queue = "express" if rng.random() < 0.3 else "batch"
        jobs.append(Known(len(jobs), user, queue, int(now), run, limit, width, int(rng.expovariate(1 / (6 * HOUR_S)))))


def scheduled(
    jobs: Sequence[Known],
    *,
    backfills: bool = True,
    first: Callable[[Known], tuple[int, ...]] = lambda job: (),
    most: int = PROCESSORS,
    down: Callable[[int], int] = lambda now: 0,
    holds: bool = False,
) -> list[int]:
    """Return the start of each job. The queue is sorted by ``first``, then by submission; its head has a reservation if
    the scheduler ``backfills``. A user has at most ``most`` processors, ``down(now)`` are out of use; with ``holds`` a
    job waits for its own time before it is in the queue."""
    ready = {job.number: job.submitted + (job.hold_s if holds else 0) for job in jobs}
    begun: dict[int, int] = {}
    running: list[tuple[int, int, Known]] = []  # end, end of the limit
    events = sorted({*ready.values(), *(day * DAY_S for day in range(WEEKS * 7 + 30))})
    coming = sorted(jobs, key=lambda job: (ready[job.number], job.number))
    waiting: list[Known] = []
    now = 0
    while len(begun) < len(jobs):
        now = min(*(time for time, _, _ in running), *events[:1], 10**12) if running or events else now
        events = [event for event in events if event > now] if events and events[0] <= now else events
        running = [one for one in running if one[0] > now]
        while coming and ready[coming[0].number] <= now:
            waiting.append(coming.pop(0))
        waiting.sort(key=lambda job: (*first(job), job.submitted, job.number))
        held: Counter[str] = Counter()
        for _, _, job in running:
            held[job.user] += job.processors
        free = PROCESSORS - down(now) - sum(held.values())
        reserved: tuple[int, int] | None = None  # until when, and what is left over then
        for job in list(waiting):
            if held[job.user] + job.processors > most:
                continue
            fits = job.processors <= free
            if reserved is not None:
                until, spare = reserved
                late = now + job.limit_s > until
                if not fits or (late and job.processors > spare):
                    continue
                reserved = until, spare - job.processors * late
            elif not fits:
                if not backfills:
                    break
                left, until = free, 10**12
                for end, one in sorted(((limit, one) for _, limit, one in running), key=lambda of: of[0]):
                    left += one.processors
                    if left >= job.processors:
                        until = end
                        break
                reserved = until, left - job.processors
                continue
            waiting.remove(job)
            begun[job.number] = now
            free -= job.processors
            held[job.user] += job.processors
            running.append((now + job.run_s, now + job.limit_s, job))
    return [begun[job.number] for job in jobs]
