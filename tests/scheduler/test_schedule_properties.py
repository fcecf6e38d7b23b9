"""What holds of every schedule, whatever the workload: fractional seconds, huge jobs, all submitted at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_papers.schedules.chosen import POLICIES, choose_policy, rules_of
from jobsight_papers.schedules.validator import validate
from jobsight_predictor.question import Question
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.table import table_of
from jobsight_scheduler.workload.canonical import Workload

CAPACITY = 8
SECONDS = st.one_of(st.integers(1, 50).map(float), st.floats(1e-3, 1e5), st.integers(1, 30).map(lambda n: n / 10))
JOB = st.tuples(
    st.one_of(st.just(0.0), SECONDS),  # since the submission before
    SECONDS,
    st.sampled_from([1.0, 1.0, 0.999, 0.5, 0.01]),  # run time, of the estimate
    st.integers(1, CAPACITY),
)


def workload_of(jobs: list[tuple[float, float, float, int]]) -> Workload:
    gaps, estimate, share, processors = (np.array(column) for column in zip(*jobs, strict=True))
    submit = np.cumsum(gaps)
    return Workload(submit - submit[0], estimate * share, estimate, processors, np.arange(len(jobs)), Counter())


@pytest.mark.parametrize("policy", POLICIES)
@given(jobs=st.lists(JOB, min_size=1, max_size=25))
@settings(max_examples=150, deadline=None)
def test_work_is_conserved_and_promises_are_kept(policy: str, jobs: list[tuple[float, float, float, int]]) -> None:
    workload = workload_of(jobs)
    questions = [Question(user=str(i % 2)) for i in range(len(jobs))]
    simulation = Simulation(workload, CAPACITY, choose_policy(policy).make, questions)
    assert simulation.advance(100 * len(jobs))
    table = table_of(workload, simulation.start_s)
    # Capacity, submission, run time and each policy's own rules: EASY's head and every conservative job start by
    # when they were promised.
    assert validate(table, CAPACITY, rules_of(choose_policy(policy))) == []
    # Whatever is done in each interval between two events adds up to the work that was asked for.
    instants = np.unique(np.concatenate([table.start_s, table.end_s]))
    middle = (instants[1:] + instants[:-1]) / 2
    busy = ((table.start_s[:, None] <= middle) & (table.end_s[:, None] > middle)).T @ table.processors
    assert (busy <= CAPACITY).all()
    np.testing.assert_allclose(busy @ np.diff(instants), workload.processors @ workload.run_s, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_comes_later_and_real_run_times_change_nothing_before(policy: str) -> None:
    """Truth does not leak: until a job has ended, the schedule is the same whatever its run time."""
    rng = np.random.default_rng(4)
    count = 200
    estimate = rng.integers(10, 500, count) * 1.0
    run = np.ceil(estimate * rng.random(count))
    submit = np.sort(rng.integers(0, 8000, count)) * 1.0
    submit -= submit[0]
    processors = rng.integers(1, CAPACITY + 1, count)
    questions = [Question(user=str(i % 3)) for i in range(count)]

    def starts(run_s: np.ndarray, jobs: int) -> np.ndarray:
        columns = (submit, run_s, estimate, processors)
        workload = Workload(*(column[:jobs] for column in columns), np.arange(jobs), Counter())
        simulation = Simulation(workload, CAPACITY, choose_policy(policy).make, questions)
        assert simulation.advance(100_000)
        return simulation.start_s

    known = starts(run, count)
    ends = known + run
    for job in range(0, count, 20):
        other = run.copy()
        other[job] = estimate[job] if run[job] < estimate[job] else estimate[job] / 2
        until = min(ends[job], known[job] + other[job])
        changed = starts(other, count)
        np.testing.assert_array_equal(changed[known < until], known[known < until])
        fewer = starts(run, job + 1)
        before = np.flatnonzero(known[: job + 1] < submit[job])
        np.testing.assert_array_equal(fewer[before], known[before])
