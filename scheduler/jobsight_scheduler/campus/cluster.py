"""The dedicated cluster beside the grid: 210 nodes of 8 cores, a queue of 48 hours above one of 120."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.reliability.resource_vector import Floats

from .job_sets import CampusJobs
from .machines import HOUR_S, Ints

CORES = 1680
LIMITS_H = (48.0, 120.0)
REQUEST_OVER_PREDICTION = 2.0
WARM_UP_S = 7 * 24 * HOUR_S
BACKGROUND_LOAD = 0.9
BACKGROUND_MEDIAN_H = 6.0
BACKGROUND_SIGMA = 1.2


@dataclass(frozen=True, slots=True)
class ClusterJobs:
    """Jobs in order of submission, each of shape (jobs,): cores, queue (0: 48 h, 1: 120 h), whether of the set."""

    submit_s: Floats
    run_s: Floats
    cores: Ints
    queue: Ints
    of_set: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """Of each job: first start, end, seconds in the queue, and how often it was stopped at the limit."""

    start_s: Floats
    end_s: Floats
    waited_s: Floats
    stops: Ints


def with_background(
    rng: np.random.Generator, jobs: CampusJobs, speed: float = 1.0, load: float = BACKGROUND_LOAD
) -> ClusterJobs:
    """The jobs of a set, one core each, among parallel jobs that offer ``load``, from a week before the set on.

    A job goes to the queue of 48 hours if twice its predicted run time fits. The jobs in the background are ours: 1 to
    32 nodes, lognormal run times.
    """
    first, last = float(jobs.submit_s[0]) - WARM_UP_S, float(jobs.submit_s[-1])
    mean_s = BACKGROUND_MEDIAN_H * HOUR_S * np.exp(BACKGROUND_SIGMA**2 / 2.0)
    widths = 8 * 2 ** np.arange(6)
    count = int(load * CORES * (last - first) / (mean_s * widths.mean()))
    submit = np.concatenate([jobs.submit_s, np.sort(rng.uniform(first, last, count))])
    run = rng.lognormal(np.log(BACKGROUND_MEDIAN_H * HOUR_S), BACKGROUND_SIGMA, count)
    asked = np.concatenate([REQUEST_OVER_PREDICTION * jobs.predicted_s / speed, run * rng.uniform(1.0, 3.0, count)])
    order = np.argsort(submit, kind="stable")
    return ClusterJobs(
        submit[order],
        np.concatenate([jobs.work_s / speed, run])[order],
        np.concatenate([np.ones(len(jobs), np.int64), rng.choice(widths, count)])[order],
        (asked > LIMITS_H[0] * HOUR_S).astype(np.int64)[order],
        np.concatenate([np.ones(len(jobs), np.bool_), np.zeros(count, np.bool_)])[order],
    )


def run_cluster(jobs: ClusterJobs, cores: int = CORES, limits_h: tuple[float, ...] = LIMITS_H) -> ClusterRun:
    """First come, first served within each queue, the queue of 48 hours first; what fits passes what does not.

    At the limit of its queue a job writes a checkpoint, releases its cores and returns to the top of the queue.
    """
    count = len(jobs.submit_s)
    start, end = np.full(count, np.inf), np.full(count, np.inf)
    waited, stops = np.zeros(count), np.zeros(count, dtype=np.int64)
    left, since = jobs.run_s.tolist(), jobs.submit_s.tolist()
    wide: list[int] = jobs.cores.tolist()
    of_queue: list[int] = jobs.queue.tolist()
    queues: tuple[deque[int], ...] = tuple(deque() for _ in limits_h)
    ends: list[tuple[float, int]] = []
    free, following = cores, 0
    while following < count or ends:
        if following < count and (not ends or since[following] < ends[0][0]):
            now = since[following]
            queues[of_queue[following]].append(following)
            following += 1
        else:
            now, job = heappop(ends)
            free += wide[job]
            left[job] -= min(left[job], limits_h[of_queue[job]] * HOUR_S)
            if left[job] > 0.0:
                stops[job] += 1
                since[job] = now
                queues[of_queue[job]].appendleft(job)
            else:
                end[job] = now
        for queue in queues:
            if not free:
                break
            held: list[int] = []
            while queue and free:
                job = queue.popleft()
                if wide[job] > free:
                    held.append(job)
                    continue
                free -= wide[job]
                start[job] = min(start[job], now)
                waited[job] += now - since[job]
                heappush(ends, (now + min(left[job], limits_h[of_queue[job]] * HOUR_S), job))
            queue.extendleft(reversed(held))
    return ClusterRun(start, end, waited, stops)
