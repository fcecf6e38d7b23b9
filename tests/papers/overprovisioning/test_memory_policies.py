"""Policies on nodes of several memory sizes, against a slow oracle and by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from jobsight_papers.overprovisioning.cluster.cases import Estimated, Oracle
from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs, numbered
from jobsight_papers.overprovisioning.cluster.nodes import NodeClass, Nodes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.cluster.simulation import MemorySimulation
from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Requested
from jobsight_papers.overprovisioning.estimators.last_instance import LastInstance
from jobsight_papers.overprovisioning.estimators.successive_approximation import SuccessiveApproximation
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload

Job = tuple[int, int, int, int, int, int]
"""Submit, run, estimate, nodes, memory requested and used."""


def memory_jobs_of(jobs: list[Job], users: list[int] | None = None) -> MemoryJobs:
    submit, run, estimate, nodes, requested, used = (
        np.array(column, dtype=float) for column in zip(*jobs, strict=True)
    )
    users = users or [0] * len(jobs)
    questions = [
        Question(user=str(user), application="a", processors=job[3], requested_memory_bytes=float(job[4]))
        for user, job in zip(users, jobs, strict=True)
    ]
    group = numbered((question.user, question.requested_memory_bytes) for question in questions)
    used = np.where(used > 0.0, used, np.nan)
    work = Workload(submit, run, estimate, nodes.astype(np.int64), np.arange(len(jobs)), Counter())
    return MemoryJobs(work, requested, used, questions, group, np.zeros(len(jobs), dtype=bool))


def drawn_classes(rng: random.Random) -> list[NodeClass]:
    sizes = sorted(rng.sample([4, 8, 15, 16, 24, 32], rng.randint(1, 3)))
    return [NodeClass(rng.randint(1, 5), float(size)) for size in sizes]


def drawn_jobs(rng: random.Random, classes: list[NodeClass]) -> list[Job]:
    """Jobs that fit on nodes with the requested memory."""
    jobs: list[Job] = []
    span, longest = rng.choice([0, 3, 12, 40]), rng.choice([2, 5, 12])
    for _ in range(rng.randint(1, 20)):
        estimate = rng.randint(1, longest)
        run = estimate if rng.random() < 0.4 else rng.randint(1, estimate)
        requested = rng.randint(1, int(classes[-1].memory_bytes))
        count = sum(entry.count for entry in classes if entry.memory_bytes >= requested)
        used = rng.choice([0, rng.randint(1, requested), requested])
        jobs.append((rng.randint(0, span), run, estimate, rng.randint(1, count), requested, used))
    return sorted(jobs, key=lambda job: job[0])


def choice(free: list[int], needed: int, count: int) -> dict[int, int]:
    """One node after the other, the smallest first."""
    left = list(free)
    taken: Counter[int] = Counter()
    for _ in range(count):
        place = min(place for place in range(needed, len(free)) if left[place])
        taken[place] += 1
        left[place] -= 1
    return taken


def oracle(policy: str, jobs: list[Job], classes: list[NodeClass]) -> list[int]:
    """Start of each job by looking at every second; every job asks for what it requests."""
    need = [next(i for i, entry in enumerate(classes) if entry.memory_bytes >= job[4]) for job in jobs]
    horizon = max(job[0] for job in jobs) + 2 * sum(job[2] for job in jobs) + 5
    free = [[entry.count for entry in classes] for _ in range(horizon)]
    starts: dict[int, int] = {}
    took: dict[int, dict[int, int]] = {}
    queue: list[int] = []
    running: list[int] = []

    def paint(start: int, end: int, taken: dict[int, int], sign: int = -1) -> None:
        for second in range(start, end):
            for place, count in taken.items():
                free[second][place] += sign * count

    def until(job: int, start: int) -> int:
        # First come, first served goes by what is free, not by what was estimated.
        return horizon if policy == "fcfs" else start + jobs[job][2]

    def begin(job: int, now: int) -> None:
        queue.remove(job)
        taken = choice(free[now], need[job], jobs[job][3])
        paint(now, until(job, now), taken)
        starts[job], took[job] = now, taken
        running.append(job)

    def look(now: int, only: int | None = None) -> None:
        while queue and sum(free[now][need[queue[0]] :]) >= jobs[queue[0]][3]:
            begin(queue[0], now)
        if policy == "fcfs" or not queue:
            return
        head = queue[0]
        # By what is expected of the running jobs, the head starts at the shadow time; nodes do not wait for it by name.
        shadow = next(s for s in range(now, horizon) if sum(free[s][need[head] :]) >= jobs[head][3])
        for job in queue[1:] if only is None else [only]:
            if sum(free[now][need[job] :]) < jobs[job][3]:
                continue
            taken = choice(free[now], need[job], jobs[job][3])
            paint(now, now + jobs[job][2], taken)
            still = sum(free[shadow][need[head] :]) >= jobs[head][3]
            paint(now, now + jobs[job][2], taken, +1)
            if still:
                begin(job, now)

    for now in range(horizon):
        for job, entry in enumerate(jobs):
            if entry[0] == now:
                queue.append(job)
                # Those that did not fit at the last end are not looked at again before the next.
                expired = any(starts[other] + jobs[other][2] == now for other in running)
                look(now, job if len(queue) > 1 and not expired else None)
        for job in [job for job in running if starts[job] + jobs[job][1] == now]:
            running.remove(job)
            paint(now, until(job, starts[job]), took[job], +1)
            look(now)
    return [starts[job] for job in range(len(jobs))]


@pytest.mark.exhaustive
@pytest.mark.parametrize("policy", MEMORY_POLICIES)
def test_small_workloads_second_by_second(policy: str) -> None:
    rng = random.Random(7)
    for case in range(400):
        classes = drawn_classes(rng)
        jobs = drawn_jobs(rng, classes)
        ready = memory_jobs_of(jobs)
        nodes = Nodes(classes)
        simulation = MemorySimulation(
            ready,
            nodes,
            MEMORY_POLICIES[policy],
            Estimated(Requested(nodes.memory_bytes), ready),
            np.random.default_rng(0),
        )
        assert simulation.advance(10_000)
        assert simulation.failures == 0
        assert nodes.free == nodes.nodes
        assert simulation.start_s.tolist() == oracle(policy, jobs, classes), (case, classes, jobs)


def test_two_machines_where_a_lowered_job_no_longer_blocks_the_larger_one() -> None:
    """The paper's example: a small need on the large machine makes a large one wait."""
    jobs = [(0, 10, 10, 1, 32, 4), (1, 10, 10, 1, 32, 30)]
    classes = [NodeClass(1, 16.0), NodeClass(1, 32.0)]
    ready = memory_jobs_of(jobs)

    def starts(requirements: Estimated | Oracle) -> list[float]:
        simulation = MemorySimulation(
            ready, Nodes(classes), MEMORY_POLICIES["fcfs"], requirements, np.random.default_rng(0)
        )
        assert simulation.advance(100)
        return simulation.start_s.tolist()

    assert starts(Estimated(Requested([16.0, 32.0]), ready)) == [0.0, 10.0]
    assert starts(Oracle(ready)) == [0.0, 1.0]


def test_a_failed_job_returns_to_the_head_and_the_time_that_it_cost_is_counted() -> None:
    class AlwaysLess(Requested):
        def estimate(self, *_: object) -> float:
            return 16.0

    jobs = [(0, 8, 8, 1, 32, 20), (1, 5, 5, 2, 16, 16), (1, 5, 5, 1, 32, 32)]
    ready = memory_jobs_of(jobs)
    nodes = Nodes([NodeClass(1, 16.0), NodeClass(1, 32.0)])
    rng = np.random.default_rng(5)
    part = float(np.random.default_rng(5).random(3)[0])
    simulation = MemorySimulation(
        ready, nodes, MEMORY_POLICIES["fcfs"], Estimated(AlwaysLess([16.0, 32.0]), ready), rng
    )
    assert simulation.advance(100)
    assert simulation.failures == 2  # the first, and the last when it has got the smaller node
    assert simulation.start_s[0] == pytest.approx(8.0 * part)
    assert simulation.end_s[0] == pytest.approx(8.0 * part + 8.0)
    assert simulation.start_s[1] == pytest.approx(8.0 * part + 8.0)
    assert simulation.is_lowered.tolist() == [False, False, False]
    assert simulation.attempts == 5


def test_jobs_that_wait_are_estimated_again() -> None:
    """Once a job has ended, those of its group are estimated to need 16: on a node of 16 and one of 32, of which the
    first job has the larger until 10 and the second the smaller until 3."""

    class LessOnceOneHasEnded(Requested):
        ended = False

        def estimate(self, _job: object, requested: float, _system: object = None) -> float:
            return 16.0 if self.ended else requested

        def learn(self, *_: object) -> None:
            self.ended = True

    def starts(jobs: list[Job], users: list[int]) -> list[float]:
        ready = memory_jobs_of(jobs, users)
        nodes = Nodes([NodeClass(1, 16.0), NodeClass(1, 32.0)])
        requirements = Estimated(LessOnceOneHasEnded([16.0, 32.0]), ready)
        simulation = MemorySimulation(ready, nodes, MEMORY_POLICIES["easy"], requirements, np.random.default_rng(0))
        assert simulation.advance(100)
        return simulation.start_s.tolist()

    begin: list[Job] = [(0, 10, 10, 1, 32, 4), (0, 3, 3, 1, 16, 4)]
    first = [*begin, (1, 5, 5, 1, 32, 4)]
    assert starts(first, [0, 1, 0]) == [0, 0, 3]
    second = [*begin, (1, 5, 5, 2, 16, 4), (2, 5, 5, 1, 32, 4)]  # behind one that needs both nodes
    assert starts(second, [0, 1, 2, 0]) == [0, 0, 10, 15]
    fails = [*begin, (1, 5, 5, 1, 32, 20)]  # on 16 at 3; it asks for its request then, and waits for the larger node
    assert starts(fails, [0, 1, 0]) == [0, 0, 10]


def test_a_faulty_program_misleads_implicit_feedback_only() -> None:
    jobs = replace(memory_jobs_of([(0, 5, 5, 1, 32, 4)]), has_failed=np.ones(1, dtype=bool))
    sizes = [16.0, 32.0]
    for requirements, then in (
        (Estimated(SuccessiveApproximation(sizes), jobs), 16.0),
        (Estimated(SuccessiveApproximation(sizes), jobs, faulty=True), 32.0),
        (Estimated(LastInstance(sizes), jobs, explicit=True, faulty=True), 4.0),
    ):
        requirements.learn(0, AttemptOutcome(32.0, 32.0, False))
        assert requirements.ask(0, None) == then
