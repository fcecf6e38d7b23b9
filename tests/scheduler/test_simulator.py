"""The simulator as a whole: rules of every schedule, odd workloads, queues of many blocks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from jobsight_papers.schedules.chosen import POLICIES, choose_policy, rules_of
from jobsight_papers.schedules.validator import validate
from jobsight_predictor.question import Question
from jobsight_scheduler.policies import block_queue, conservative
from jobsight_scheduler.policies.base import QueueTooLongError
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import table_of
from jobsight_scheduler.workload.canonical import Workload

CAPACITY = 16
CASES = [
    *((policy, None) for policy in POLICIES),
    *(("easy++", predictor) for predictor in ("locality", "exponential", "jobsight")),
    ("sjf", "jobsight"),
]
"""Policy and predictor."""


def workload(seed: int, jobs: int = 300) -> Workload:
    """A busy machine: short queues and long ones, estimates exact or far off."""
    rng = np.random.default_rng(seed)
    estimate = rng.choice([5.0, 60.0, 600.0, 3600.0], jobs)
    run = np.where(rng.random(jobs) < 0.3, estimate, np.ceil(estimate * rng.random(jobs) ** 2))
    processors = rng.integers(1, CAPACITY + 1, jobs)
    gaps = rng.exponential((processors * run).mean() / CAPACITY * rng.choice([0.5, 1.0, 1.5]), jobs)
    submit = np.floor(np.cumsum(gaps))
    return Workload(submit - submit[0], run, estimate, processors, np.arange(jobs), Counter())


def questions(jobs: Workload) -> list[Question]:
    return [
        Question(user=f"u{i % 7}", application=f"a{i % 3}", processors=count, requested_time_s=estimate)
        for i, (count, estimate) in enumerate(zip(jobs.processors.tolist(), jobs.estimate_s.tolist(), strict=True))
    ]


def simulation(jobs: Workload, policy: str, predictor: str | None = None) -> Simulation:
    return Simulation(jobs, CAPACITY, choose_policy(policy, predictor).make, questions(jobs))


def finished(jobs: Workload, policy: str, predictor: str | None = None) -> NDArray[np.float64]:
    whole = simulation(jobs, policy, predictor)
    assert whole.advance(1_000_000)
    assert whole.ended == len(jobs)
    return whole.start_s


@pytest.mark.exhaustive
@pytest.mark.parametrize(("policy", "predictor"), CASES)
def test_every_schedule_keeps_the_rules_and_every_job_runs_once(policy: str, predictor: str | None) -> None:
    rules = rules_of(choose_policy(policy, predictor))
    for seed in range(12):
        jobs = workload(seed)
        starts = finished(jobs, policy, predictor)
        table = table_of(jobs, starts)
        assert validate(table, CAPACITY, rules) == []


@pytest.mark.parametrize("policy", ["easy", "easy++"])
def test_many_blocks_of_waiting_jobs_change_nothing(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    crowds = [workload(seed, 250) for seed in range(8)]
    for jobs in crowds[:4]:
        jobs.submit_s[:] = 0.0
    plain = [finished(jobs, policy) for jobs in crowds]
    for block, classes in ((1, 128), (3, 4)):
        monkeypatch.setattr(block_queue, "BLOCK", block)
        monkeypatch.setattr(block_queue, "CLASSES", classes)
        for jobs, expected in zip(crowds, plain, strict=True):
            np.testing.assert_array_equal(finished(jobs, policy), expected)


def test_conservative_backfilling_of_an_endless_queue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conservative, "LONGEST_QUEUE", 40)
    jobs = workload(0)
    jobs.submit_s[:] = 0.0
    with pytest.raises(QueueTooLongError, match="41 jobs wait at 0 s"):
        finished(jobs, "conservative")


def test_a_workload_without_jobs_is_done_at_once() -> None:
    nothing = np.empty(0)
    jobs = Workload(nothing, nothing, nothing, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.intp), Counter())
    for policy in POLICIES:
        assert simulation(jobs, policy).advance(10)


def test_a_policy_that_takes_no_predictor() -> None:
    with pytest.raises(ValueError, match="easy uses requested times and takes no predictor; sjf and easy\\+\\+ can"):
        choose_policy("easy", "locality")
