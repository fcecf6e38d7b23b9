"""EASY on nodes of two memory classes against an oracle that places every job on every single node, and what becomes of
wide jobs of the larger class."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.scheduler.by_rows import workload_of

from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import Stated
from jobsight_scheduler.simulator.shared_nodes import NodeSizes, SharedSimulation

Job = tuple[int, int, int, int, int]  # submit, run, request, processors, memory


def oracle(jobs: list[Job], memory: list[int]) -> list[int]:
    """Start of each job under EASY on nodes of one processor with this memory, by lists of single nodes."""
    busy: dict[int, tuple[int, int]] = {}  # node -> (job, end of its request)
    starts: dict[int, int] = {}
    queue: list[int] = []

    def free(except_by: int | None = None) -> list[int]:
        """The free nodes, or those free at a time by requests."""
        return [n for n in range(len(memory)) if n not in busy or (except_by is not None and busy[n][1] <= except_by)]

    def place(job: int) -> list[int] | None:
        fitting = [n for n in free() if memory[n] >= jobs[job][4]]
        return sorted(fitting, key=lambda n: (memory[n], n))[: jobs[job][3]] if len(fitting) >= jobs[job][3] else None

    def begin(job: int, where: list[int], now: int) -> None:
        queue.remove(job)
        starts[job] = now
        busy.update(dict.fromkeys(where, (job, now + jobs[job][2])))

    def fits_at(job: int, time: int) -> bool:
        return sum(memory[n] >= jobs[job][4] for n in free(except_by=time)) >= jobs[job][3]

    def look(now: int) -> None:
        while queue and (where := place(queue[0])) is not None:
            begin(queue[0], where, now)
        if not queue:
            return
        head = queue[0]
        shadow = next(time for time in sorted(end for _, end in busy.values()) if fits_at(head, time))
        for job in queue[1:]:
            if (where := place(job)) is not None:
                before = dict(busy)
                busy.update(dict.fromkeys(where, (job, now + jobs[job][2])))
                keeps = fits_at(head, shadow)
                busy.clear()
                busy.update(before)
                if keeps:
                    begin(job, where, now)

    for now in range(10_000):
        # As in the simulator: each submission, then each end in the order of the starts, is followed by a pass.
        for job in range(len(jobs)):
            if jobs[job][0] == now:
                for n in [n for n, (_, end) in busy.items() if end <= now]:
                    del busy[n]
                queue.append(job)
                look(now)
        for job in sorted(starts, key=starts.__getitem__):
            if starts[job] + jobs[job][1] == now:
                for n in [n for n, (other, end) in busy.items() if other == job or end <= now]:
                    del busy[n]
                look(now)
        if len(starts) == len(jobs) and now > max(job[0] for job in jobs):
            return [starts[job] for job in range(len(jobs))]
    raise AssertionError("jobs wait for ever")


@pytest.mark.parametrize("seed", range(200))
def test_easy_on_two_classes_is_that_of_single_nodes(seed: int) -> None:
    rng = random.Random(seed)
    memory = [4] * rng.randint(1, 3) + [8] * rng.randint(2, 4)
    rng.shuffle(memory)
    submits = rng.sample(range(0, 400, 2), 12)  # at even times; runs are odd: no ties between ends and submissions
    jobs: list[Job] = []
    for submit in sorted(submits):
        each = rng.choice((2, 4, 8))
        most = sum(of >= each for of in memory)
        run = rng.randrange(11, 80, 2)
        jobs.append((submit, run, run + rng.randrange(0, 60, 2), rng.randint(1, most), each))
    work = workload_of([job[:4] for job in jobs])
    nodes = NodeSizes(np.ones(len(memory)), np.array(memory, dtype=float))
    attempts = [(float(job[4]),) for job in jobs]
    simulation = SharedSimulation(work, nodes, Easy, [], attempts, np.full(len(jobs), np.nan))
    while not simulation.advance(1000):
        pass
    assert simulation.start_s.tolist() == oracle(jobs, memory)


def test_a_wide_job_of_the_larger_class_does_not_starve_behind_jobs_that_outrun_their_predictions() -> None:
    """Two nodes of each class. From 2 s on the second job waits for both large ones. Small jobs arrive for an hour, are
    predicted to take 1 s, and take 50 to 70 of 100 requested."""
    rng = random.Random(1)
    rows = [(0, 60, 100, 1), (2, 10, 100, 2)] + [(3 + 10 * i, rng.randint(50, 70), 100, 1) for i in range(360)]
    attempts = [(8.0,), (8.0,)] + [(2.0,)] * 360
    work = workload_of(rows)
    nodes = NodeSizes(np.ones(4), np.array([4.0, 4.0, 8.0, 8.0]))
    predictions = [float(rows[0][2]), float(rows[1][2])] + [1.0] * 360
    simulation = SharedSimulation(
        work,
        nodes,
        lambda requests: EasyPlus(requests, Stated(predictions)),
        [],
        attempts,
        np.full(len(rows), np.nan),
    )
    while not simulation.advance(1000):
        pass
    # Its first reservation is for 100 s, and jobs that started before it was late end by 200 s.
    assert simulation.start_s[1] <= 200.0
