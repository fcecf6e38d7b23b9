"""Every policy against an oracle that looks at every single second, on thousands of small workloads.

The oracle shares nothing with the simulator: it paints each job on a list of free processors per second.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.scheduler.by_rows import Seconds, starts_of

from jobsight_papers.schedules.chosen import POLICIES, choose_policy
from jobsight_papers.schedules.multifactor import PriorityWeights
from jobsight_scheduler.policies import easy_plus

CORRECTIONS = (1, 2, 4)
"""Of EASY++: the published ones are longer than these jobs."""

Job = tuple[int, int, int, int]  # submit, run, estimate, processors


def oracle(
    policy: str,
    jobs: list[Job],
    capacity: int,
    users: list[int],
    *,
    predicts: bool = False,
    key: Callable[[int, int], float] | None = None,
) -> list[int]:
    """Start of each job, second by second. EASY++ goes by the mean of the user's last two run times at submission, as
    does SJF that ``predicts``. ``key(now, job)`` orders EASY's queue."""
    seconds = Seconds(capacity, jobs)
    starts: dict[int, int] = {}
    promised: dict[int, tuple[int, int]] = {}  # conservative: job -> (start, number of the promise)
    queue: list[int] = []
    running: list[int] = []  # in the order of their starts
    promises = 0
    expected = [job[2] for job in jobs]
    predicted = list(expected)
    corrections = [0] * len(jobs)
    history: dict[int, list[int]] = {user: [] for user in users}

    def forecast(job: int) -> None:
        if (policy == "easy++" or predicts) and len(history[users[job]]) > 1:
            predicted[job] = min(jobs[job][2], sum(history[users[job]][-2:]) // 2)
            if policy == "easy++":
                expected[job] = predicted[job]

    def begin(job: int, now: int) -> None:
        queue.remove(job)
        seconds.paint(now, now + expected[job], jobs[job][3])
        starts[job] = now
        running.append(job)

    def look(now: int) -> None:
        if key is not None:
            queue.sort(key=lambda job: (key(now, job), job))
        if policy == "sjf":
            queue.sort(key=lambda job: (predicted[job], job))
        while queue and seconds.free[now] >= jobs[queue[0]][3]:
            begin(queue[0], now)
        if policy in ("fcfs", "sjf") or not queue:
            return
        head, length, count = queue[0], expected[queue[0]], jobs[queue[0]][3]
        others = queue[1:] if policy == "easy" else sorted(queue[1:], key=lambda job: (expected[job], job))
        for job in others:
            if seconds.free[now] < jobs[job][3]:
                continue
            first = seconds.first(now, length, count)
            seconds.paint(first, first + length, count)
            possible = seconds.fits(now, expected[job], jobs[job][3])
            seconds.paint(first, first + length, -count)
            if possible:
                begin(job, now)
        assert queue[0] == head

    def correct(job: int) -> None:
        old, first = expected[job], predicted[job]
        expected[job] = min(jobs[job][2], first + (*CORRECTIONS, jobs[job][2])[corrections[job]])
        corrections[job] = min(corrections[job] + 1, len(CORRECTIONS))
        seconds.paint(starts[job] + old, starts[job] + expected[job], jobs[job][3])

    def promise(job: int, now: int) -> None:
        nonlocal promises
        _, _, estimate, count = jobs[job]
        start = seconds.first(now, estimate, count)
        seconds.paint(start, start + estimate, count)
        if job not in promised or promised[job][0] != start:
            promised[job] = (start, promises)
            promises += 1

    for now in range(seconds.horizon):
        for job in running:
            if starts[job] + expected[job] == now and jobs[job][1] > expected[job]:
                correct(job)
        for job, (submit, _, _, _) in enumerate(jobs):
            if submit != now:
                continue
            queue.append(job)
            forecast(job)
            if policy == "conservative":
                promise(job, now)
            else:
                look(now)
        for job in [job for job in running if starts[job] + jobs[job][1] == now]:
            running.remove(job)
            history[users[job]].append(jobs[job][1])
            seconds.paint(now, starts[job] + expected[job], -jobs[job][3])
            if policy != "conservative":
                look(now)
                continue
            for waiting in [waiting for waiting in queue if promised[waiting][0] > now]:
                old = promised[waiting][0]
                seconds.paint(old, old + jobs[waiting][2], -jobs[waiting][3])
                promise(waiting, now)
        if policy == "conservative":
            due = [job for job in queue if promised[job][0] == now]
            for job in sorted(due, key=lambda job: promised[job][1]):
                queue.remove(job)
                starts[job] = now
                running.append(job)
        if len(starts) == len(jobs) and not running:
            break
    return [starts[job] for job in range(len(jobs))]


def _drawn(rng: random.Random, capacity: int) -> list[Job]:
    """Full of ties: few seconds, few lengths, and estimates that are often exact."""
    jobs: list[Job] = []
    span, longest = rng.choice([0, 3, 12, 40]), rng.choice([2, 5, 12])
    for _ in range(rng.randint(1, 20)):
        estimate = rng.randint(1, longest)
        run = estimate if rng.random() < 0.4 else rng.randint(1, estimate)
        jobs.append((rng.randint(0, span), run, estimate, rng.randint(1, capacity)))
    return sorted(jobs, key=lambda job: job[0])


@pytest.mark.parametrize(
    ("policy", "predictor"), [*((policy, None) for policy in POLICIES if policy != "multifactor"), ("sjf", "last-two")]
)
def test_small_workloads_second_by_second(policy: str, predictor: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(easy_plus, "CORRECTIONS_S", tuple(map(float, CORRECTIONS)))
    rng = random.Random(20)
    chosen, predicts, changed = choose_policy(policy, predictor), predictor is not None, 0
    for case in range(2000):
        capacity = rng.choice([1, 2, 3, 4, 7, 10])
        jobs = _drawn(rng, capacity)
        users = [rng.randint(0, 1) for _ in jobs]
        starts = oracle(policy, jobs, capacity, users, predicts=predicts)
        assert starts_of(chosen.make, capacity, jobs, list(map(str, users))) == starts, (case, capacity, jobs, users)
        changed += predicts and starts != oracle(policy, jobs, capacity, users)
    assert (changed > 50) == predicts


def test_small_jobs_first_second_by_second() -> None:
    """Multifactor is EASY in another order, here that of sizes."""
    rng = random.Random(20)
    chosen = choose_policy("multifactor", weights=PriorityWeights(age=0.0, size=-1.0, fair_share=0.0))
    for case in range(500):
        capacity = rng.choice([1, 2, 3, 4, 7, 10])
        jobs = _drawn(rng, capacity)
        starts = oracle("easy", jobs, capacity, [0] * len(jobs), key=lambda _, job: jobs[job][3])
        assert starts_of(chosen.make, capacity, jobs) == starts, (case, capacity, jobs)
