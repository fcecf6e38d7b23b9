"""A run's use is exact, a lower bound or unknown: generated runs on one to four nodes, by every source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.profiler.memory import Idle
from jobsight_server.profiler.profile import profile
from jobsight_server.profiler.runs import Boundaries, EndedRun, Neighbours, Readings
from jobsight_server.profiler.sampled import JobCgroup, NodeEvidence
from jobsight_server.profiler.values import Measurement, decided

MIB = 2**20
IDLE = 900 * MIB
NODE_BYTES = 64 * 2**30
CPUS = 16
each_kind = settings(deadline=None, max_examples=80)


@dataclass(frozen=True, slots=True)
class Task:
    """A job's task on a node: it holds ``bytes`` from ``since`` to ``until``, on a busy processor."""

    bytes: int
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Made:
    """A run with its tasks by node, and whether the agent always reads the cgroup."""

    life_s: float
    tasks: list[Task]
    interval_s: float = 10.0
    offset_s: float = 0.0
    read_until: dict[int, float] = field(default_factory=dict)
    cgroups: bool = True
    logged: dict[str, Any] = field(default_factory=dict)

    @property
    def truth(self) -> float:
        """The largest memory of all tasks at one time."""
        return max(sum(t.bytes for t in self.tasks if t.since <= at.since < t.until) for at in self.tasks)

    def measured(self) -> dict[str, Measurement]:
        nodes = [self._evidence(number, task) for number, task in enumerate(self.tasks)]
        run = EndedRun(
            1, "c", "1.s", "ann", 0.0, self.life_s, len(nodes),
            **{"used_cpu_s": None, "used_memory_bytes": None, "nodes": {node.node: 1 for node in nodes}} | self.logged,
        )  # fmt: skip
        return profile(run, nodes)

    def _evidence(self, number: int, task: Task) -> NodeEvidence:
        start, end = self.offset_s, self.offset_s + self.life_s
        until = self.read_until.get(number, self.life_s + 40.0) + self.offset_s
        times = np.arange(start - 35.0 + number, until, self.interval_s)
        held = np.where((times >= start + task.since) & (times < start + task.until), task.bytes, 0)
        busy = np.clip(times - start - task.since, 0.0, task.until - task.since)
        nothing = np.zeros(len(times))
        readings = Readings(times, nothing, nothing, busy + 0.01 * (times - times[0]), IDLE + held, nothing)
        there = (times >= start + task.since) & (times < start + task.until)
        group = None
        if self.cgroups and there.any():
            group = JobCgroup(times[there], busy[there], held[there].astype(float), np.zeros(there.sum()), None)
        at = Boundaries(start, end, offset_s=self.offset_s)
        return NodeEvidence(
            f"n{number}", 1, readings, at, Neighbours((), ()), Idle(float(IDLE), 5.0), group,
            cpus=CPUS, memory_bytes=NODE_BYTES,
        )  # fmt: skip


@st.composite
def made(draw: st.DrawFn, *, most_nodes: int = 4, early: bool = False) -> Made:
    life_s = draw(st.floats(120.0, 4000.0))
    tasks = []
    for number in range(draw(st.integers(2 if early else 1, most_nodes))):
        since = draw(st.floats(0.0, 0.4)) * life_s if number and early else 0.0
        until = life_s * (draw(st.floats(0.45, 1.0)) if number and early else 1.0)
        tasks.append(Task(draw(st.integers(50, 4000)) * MIB, since, until))
    return Made(life_s, tasks, draw(st.sampled_from([1.0, 5.0, 10.0])), draw(st.floats(-300.0, 300.0)))


def is_true_or_marked(found: Measurement, truth: float, processors: int) -> bool:
    if found.value is None:
        return bool(found.reason)
    total = found.value * processors
    return total <= 1.02 * truth and (found.lower_bound or total >= 0.95 * truth)


@each_kind
@given(made(), st.sampled_from(["cgroup", "samples", "log", "all"]))
def test_a_source_that_saw_everything_is_exact(run: Made, source: str) -> None:
    logged = {"used_memory_bytes": int(run.truth), "used_cpu_s": run.life_s * len(run.tasks)}
    run = Made(
        run.life_s, run.tasks, run.interval_s, run.offset_s, cgroups=source in ("cgroup", "all"),
        logged=logged if source in ("log", "all") else {},
    )  # fmt: skip
    found = run.measured()
    assert found["memory"].value == pytest.approx(run.truth / len(run.tasks), rel=0.01)
    assert found["memory"].quantity == ("node" if source == "samples" else "resident")
    assert not found["memory"].lower_bound
    assert found["cpu"].value == pytest.approx(1.0, abs=0.02 + run.interval_s / run.life_s)


@each_kind
@given(made(early=True), st.floats(0.001, 1.0), st.booleans())
def test_a_node_whose_tasks_end_early_holds_nothing_from_then_on(run: Made, share: float, incomplete: bool) -> None:
    """The log has the peak of some tasks only, and is right or not about that."""
    logged = {"used_memory_bytes": max(1, int(share * run.truth)), "memory_incomplete": incomplete or None}
    run = Made(run.life_s, run.tasks, run.interval_s, run.offset_s, logged=logged)
    found = run.measured()["memory"]
    assert found.value is not None
    assert is_true_or_marked(found, run.truth, len(run.tasks)), (found, run.truth)
    if not incomplete:
        assert not found.lower_bound


@each_kind
@given(made(early=True), st.floats(0.0, 0.99), st.integers(0, 3))
def test_an_agent_that_stops_leaves_a_lower_bound(run: Made, share: float, number: int) -> None:
    node = min(number, len(run.tasks) - 1)
    run = Made(run.life_s, run.tasks, run.interval_s, run.offset_s, {node: share * run.life_s})
    assert is_true_or_marked(run.measured()["memory"], run.truth, len(run.tasks))


@each_kind
@given(made(), st.floats(11.0, 1e6), st.sampled_from([0.0, 1e-3, 1.0]))
def test_no_cpu_time_in_a_long_run_is_not_measured(run: Made, life_s: float, cpu_s: float) -> None:
    nodes = {f"n{number}": 8 for number in range(len(run.tasks))}
    log: dict[str, Any] = {"used_cpu_s": cpu_s, "used_memory_bytes": 15 * MIB}
    found = profile(EndedRun(1, "c", "1", "ann", 0.0, life_s, 8 * len(nodes), **log, nodes=nodes), [])
    assert (found["cpu"].value is None) == (cpu_s == 0.0) == found["memory"].lower_bound
    assert (found["cpu"].reason is None) == (cpu_s > 0.0)
    assert found["memory"].value == pytest.approx(15 * MIB / 8 / len(nodes))


@each_kind
@given(st.floats(0.0, 1.0), st.integers(1, 64), st.floats(0.1, 1e9), st.booleans())
def test_more_than_its_nodes_have_is_unknown(share: float, processors: int, factor: float, known: bool) -> None:
    life_s = 1000.0
    cpus, size = (CPUS, NODE_BYTES) if known else (None, None)
    nothing = np.empty(0)
    empty = Readings(nothing, nothing, nothing, nothing, nothing, nothing)
    node = NodeEvidence(
        "n1", processors, empty, Boundaries(0.0, life_s), Neighbours((), ()), cpus=cpus, memory_bytes=size
    )
    used = int(factor * NODE_BYTES * (0.5 + share))
    log: dict[str, Any] = {"used_cpu_s": factor * processors * life_s, "used_memory_bytes": used}
    found = profile(EndedRun(1, "c", "1", "ann", 0.0, life_s, processors, **log, nodes={"n1": processors}), [node])
    most = max(CPUS if known else 0, processors)
    assert (found["cpu"].value is None) == (factor * processors > 1.05 * most)
    assert (found["memory"].value is None) == (known and used > NODE_BYTES)


@each_kind
@given(made(most_nodes=1), st.floats(0.1, 10.0))
def test_a_run_of_some_seconds_does_not_have_its_nodes_memory(run: Made, life_s: float) -> None:
    run = Made(life_s, [Task(493 * MIB, 0.0, life_s)], 0.2, run.offset_s, cgroups=False)
    assert run.measured()["memory"].value is None


@each_kind
@given(made(early=True), st.booleans())
def test_address_space_and_page_cache_are_not_compared_with_resident_memory(run: Made, virtual: bool) -> None:
    used = int(5.4 * run.truth)
    logged = {"used_memory_bytes": used, "memory_is_virtual": virtual, "memory_with_cache": not virtual}
    run = Made(run.life_s, run.tasks, run.interval_s, run.offset_s, logged=logged)
    found = run.measured()["memory"]
    assert found.value is not None
    if virtual:
        assert (found.quantity, found.value, found.lower_bound) == ("virtual", used / len(run.tasks), False)
    else:
        assert found.quantity == "resident"
        assert is_true_or_marked(found, run.truth, len(run.tasks))
    without = Made(run.life_s, run.tasks, run.interval_s, run.offset_s, logged={"memory_is_virtual": virtual})
    assert without.measured()["memory"].lower_bound == virtual


@each_kind
@given(
    st.lists(
        st.builds(
            Measurement,
            st.one_of(st.none(), st.floats(1.0, 1e12)),
            lower_bound=st.booleans(),
            reason=st.just("why"),
            quantity=st.sampled_from(["resident", "node", "with_cache", "virtual"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_an_exact_value_is_contradicted_by_nothing_and_the_largest_of_its_kind(readings: list[Measurement]) -> None:
    found = decided(readings)
    known = [one for one in readings if one.value is not None]
    assert (found.value is None) == (not known)
    if found.value is not None and not found.lower_bound:
        comparable = [one for one in known if one.quantity in (found.quantity, "resident", "node")]
        values = [one.value or 0.0 for one in comparable if one.lower_bound or one.quantity == found.quantity]
        assert max(values) <= found.value
