"""Nodes that jobs share: as counted processors where memory never runs out, and within both resources where it does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.scheduler.by_rows import workload_of

from jobsight_papers.schedules.lublin import lublin
from jobsight_predictor.question import Question
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import LastTwo
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.simulator.shared_nodes import UNLIMITED, NodeSizes, SharedSimulation
from jobsight_scheduler.workload.canonical import canonical

POLICIES: list[Callable[..., Easy]] = [Easy, lambda requests: EasyPlus(requests, LastTwo(requests.questions))]


def finished(simulation: Simulation) -> Simulation:
    while not simulation.advance(10_000):
        pass
    return simulation


@pytest.mark.parametrize("make", POLICIES)
@pytest.mark.parametrize("sizes", [[64.0], [1.0] * 64, [16.0, 40.0, 8.0]])
def test_without_a_limit_of_memory_they_are_counted_processors(sizes: list[float], make: Callable[..., Easy]) -> None:
    work = canonical(lublin(600, 64, seed=5), 64)
    questions = [Question(user=f"u{job % 7}") for job in range(len(work))]
    counted = finished(Simulation(work, 64, make, questions))
    nodes = NodeSizes(np.array(sizes), np.full(len(sizes), UNLIMITED / 2.0))  # not the machine of counted processors
    free = [(1e9,)] * len(work)
    shared = finished(SharedSimulation(work, nodes, make, questions, free, np.full(len(work), np.nan)))
    assert shared.start_s.tolist() == counted.start_s.tolist()


def test_a_job_waits_for_memory_and_is_run_again_with_more() -> None:
    # Two nodes of 2 processors and 10 bytes; the second job has room for processors, but not for 8 bytes each.
    work = workload_of([(0, 10, 10, 2), (0, 5, 5, 2), (1, 5, 5, 1), (2, 4, 4, 1)])
    nodes = NodeSizes(np.array([2.0, 2.0]), np.array([10.0, 10.0]))
    attempts = [(5.0,), (8.0,), (1.0, 10.0), (0.0,)]
    used = np.array([5.0, 9.0, 2.0, np.nan])
    simulation = finished(SharedSimulation(work, nodes, Easy, [], attempts, used))
    # 0 fills the first node; 1 needs both and waits for it until 10, although its second attempt would be no larger.
    assert simulation.start_s[[0, 1]].tolist() == [0.0, 10.0]
    # 2 is killed on the second node, and runs there again with all of its memory; 3 needs none.
    assert simulation.failures == [0, 0, 1, 0]
    assert 1.0 < simulation.start_s[2] < 6.0
    assert simulation.start_s[3] == 2.0


@pytest.mark.parametrize("make", POLICIES)
@pytest.mark.parametrize("seed", range(5))
def test_no_node_holds_more_than_it_has(seed: int, make: Callable[..., Easy]) -> None:
    rng = np.random.default_rng(seed)
    work = canonical(lublin(300, 24, seed=seed), 24)
    nodes = NodeSizes(np.array([8.0, 8.0, 4.0, 4.0]), np.array([64.0, 32.0, 32.0, 16.0]))
    drawn = rng.choice([1, 2, 4, 8, 12], len(work)).tolist()
    pairs = zip(drawn, work.processors.tolist(), strict=True)
    each = [size if nodes.room(size).sum() >= need else 1 for size, need in pairs]
    attempts = [(size / 2.0, float(size)) for size in each]
    used = np.array(each) * rng.choice([0.4, 0.9], len(each))
    questions = [Question(user="u")] * len(work)
    simulation = SharedSimulation(work, nodes, make, questions, attempts, used)
    machine = simulation.policy.machine
    while not simulation.advance(1):
        left = machine.nodes  # type: ignore[attr-defined]
        assert (left.processors >= 0.0).all()
        assert (left.memory_bytes >= 0.0).all()
        assert machine.free == left.processors.sum()
    assert (machine.nodes.memory_bytes == nodes.memory_bytes).all()  # type: ignore[attr-defined]
    assert simulation.failures == (used > np.array(each) / 2.0).astype(int).tolist()
    assert (simulation.start_s >= work.submit_s).all()
