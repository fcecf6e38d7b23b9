"""Checks of a schedule of several clusters from its result alone: processors, links, and the work of every job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from jobsight_papers.schedules.validator.basics import BrokenRule
from jobsight_predictor.arrays import Floats
from jobsight_scheduler.coallocation.clusters import Allocation, Clusters, demand, proportional
from jobsight_scheduler.coallocation.communication import CommunicatingJobs

TOLERANCE = 1e-9
"""Relative: sums of fractional seconds round."""


def check(
    work: CommunicatingJobs,
    clusters: Clusters,
    start_s: Floats,
    end_s: Floats,
    allocations: Sequence[Allocation],
) -> list[BrokenRule]:
    """Return every breach of: jobs start after submission, whole and once; no cluster or link exceeds its capacity;
    between start and end a job does exactly its dedicated run time of work, at the speeds that links allow.
    """
    findings = list(_each_job(work, clusters, start_s, end_s, allocations))
    return findings or list(_over_time(work, clusters, start_s, end_s, allocations))


def _each_job(
    work: CommunicatingJobs, clusters: Clusters, start_s: Floats, end_s: Floats, allocations: Sequence[Allocation]
) -> Iterator[BrokenRule]:
    jobs = work.jobs
    for i, allocation in enumerate(allocations):
        used = [cluster for cluster, _ in allocation]
        if not np.isfinite(start_s[i]) or not np.isfinite(end_s[i]):
            yield BrokenRule("every job runs", i + 1, "was never started, or never ended")
        elif start_s[i] < jobs.submit_s[i]:
            text = f"starts at {start_s[i]:g}, before it was submitted at {jobs.submit_s[i]:g}"
            yield BrokenRule("no start before submission", i + 1, text)
        elif sum(count for _, count in allocation) != jobs.processors[i] or min(count for _, count in allocation) < 1:
            yield BrokenRule("whole jobs", i + 1, f"wants {jobs.processors[i]} processors and has {allocation}")
        elif len(set(used)) != len(used) or not set(used) <= set(range(len(clusters.processors))):
            yield BrokenRule("whole jobs", i + 1, f"is on clusters {used}, of {len(clusters.processors)}")


def _over_time(
    work: CommunicatingJobs,
    clusters: Clusters,
    start_s: Floats,
    end_s: Floats,
    allocations: Sequence[Allocation],
) -> Iterator[BrokenRule]:
    lasting = np.flatnonzero(end_s > start_s).tolist()  # others are too short for the clock and occupy nothing
    ends = [(float(end_s[i]), False, i) for i in lasting]
    events = sorted([*ends, *((float(start_s[i]), True, i) for i in lasting)])
    bandwidth, share = work.bandwidth_bps.tolist(), work.share.tolist()
    free = list(clusters.processors)
    done = [0.0] * len(work.jobs)
    running: dict[int, float] = {}  # speed
    before = 0.0
    for now, group in groupby(events, key=lambda event: event[0]):
        for job, speed in running.items():
            done[job] += speed * (now - before)
        before = now
        for _, starts, job in group:
            for cluster, count in allocations[job]:
                free[cluster] -= count if starts else -count
            if starts:
                running[job] = 1.0
            else:
                del running[job]
        if min(free) < 0:
            yield BrokenRule("processors", job + 1, f"clusters are overbooked at {now:g}: {free} left")
        spread = {job: wanted for job in running if (wanted := demand(allocations[job], bandwidth[job]))}
        slowed = proportional(list(spread.values()), clusters.uplink_bps)
        carried = [0.0] * len(free)
        for (spread_job, wanted), factor in zip(spread.items(), slowed, strict=True):
            running[spread_job] = 1.0 / (1.0 - share[spread_job] + share[spread_job] * factor)
            for link, rate in wanted:
                carried[link] += rate / factor
        for link, capacity in enumerate(clusters.uplink_bps):
            if carried[link] > capacity * (1.0 + TOLERANCE):
                yield BrokenRule("links", job + 1, f"link {link} carries {carried[link]:g} of {capacity:g} at {now:g}")
    for i, (run, took) in enumerate(zip(work.jobs.run_s.tolist(), done, strict=True)):
        clock = 100.0 * float(np.spacing(end_s[i]))  # precision of so late a time, changes of speed included
        if abs(run - took) > TOLERANCE * run + clock:
            yield BrokenRule("work is done exactly", i + 1, f"takes {run:g} s alone, but {took:g} s of work are done")
