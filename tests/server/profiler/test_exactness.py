"""A run's use is exact, a lower bound or unknown: generated runs on one to four nodes, by every source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.profiler.exactness import Measurement, decided
from jobsight_server.profiler.memory import Idle
from jobsight_server.profiler.profile import profile
from jobsight_server.profiler.runs import Boundaries, EndedRun, Neighbours, Readings
from jobsight_server.profiler.sampled import JobCgroup, NodeEvidence

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
        nodes = self.evidence()
        return profile(self.run(nodes), nodes)

    def evidence(self) -> list[NodeEvidence]:
        return [self._evidence(number, task) for number, task in enumerate(self.tasks)]

    def run(self, nodes: list[NodeEvidence]) -> EndedRun:
        return EndedRun(
            1, "c", "1.s", "ann", 0.0, self.life_s, max(len(nodes), 1),
            **{"used_cpu_s": None, "used_memory_bytes": None, "nodes": {node.node: 1 for node in nodes}} | self.logged,
        )  # fmt: skip

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
@given(made(), st.floats(11.0, 1e6), st.sampled_from([0.0, 1e-4, 0.0049, 0.0051, 1.0]))
def test_hardly_any_cpu_time_is_not_measured(run: Made, life_s: float, share: float) -> None:
    nodes = {f"n{number}": 8 for number in range(len(run.tasks))}
    processors = 8 * len(nodes)
    log: dict[str, Any] = {"used_cpu_s": share * processors * life_s, "used_memory_bytes": 15 * MIB}
    found = profile(EndedRun(1, "c", "1", "ann", 0.0, life_s, processors, **log, nodes=nodes), [])
    is_idle = share < 0.005 and life_s > 600.0
    assert (found["cpu"].value is None) == (share == 0.0 or is_idle) == bool(found["cpu"].reason)
    assert (found["memory"].value is None) == is_idle
    assert found["memory"].lower_bound == (share == 0.0 and not is_idle)


@each_kind
@given(made(), st.sampled_from([True, False]), st.floats(0.0, 0.2))
def test_memory_that_grows_until_the_last_reading_is_a_lower_bound(run: Made, cgroups: bool, growth: float) -> None:
    """Linear growth, by ``growth`` of the peak from one reading to the next."""
    run = Made(run.life_s, run.tasks[:1], run.interval_s, 0.0, cgroups=cgroups)
    (node,) = run.evidence()
    times = node.readings.time if node.group is None else node.group.time
    last = times[times < run.life_s][-1]
    truth = 10_000.0 * MIB
    held = truth * np.clip(1.0 - growth * (run.life_s - times) / run.interval_s, 0.0, 1.0)
    if node.group is None:
        inside = (times >= 0.0) & (times < run.life_s)
        node = replace(node, readings=replace(node.readings, memory_used_bytes=IDLE + np.where(inside, held, 0.0)))
    else:
        node = replace(node, group=replace(node.group, used=held))
    found = profile(run.run([node]), [node])["memory"]
    if found.value is not None:
        assert found.lower_bound or found.value >= 0.99 * truth, (found, last)


@pytest.mark.parametrize(
    ("peak", "cache", "logged", "is_bound"),
    [
        (1000, 0, 1000, False), (1008, 0, 1000, False), (1030, 0, 1000, True), (1030, 40, 1000, False),
        (900, 0, 1000, True), (897, 0, 890, False),
    ],
)  # fmt: skip
def test_a_kernels_maximum_shows_what_no_reading_saw(peak: int, cache: int, logged: int, is_bound: bool) -> None:
    """Or that a larger value of the log was reached after it had been read; sizes in MiB, readings of 890."""
    log = {"used_memory_bytes": logged * MIB, "used_cpu_s": 900.0}
    run = Made(1000.0, [Task(890 * MIB, 0.0, 1000.0)], logged=log)
    (node,) = run.evidence()
    assert node.group is not None
    group = replace(node.group, charged_peak=float(peak * MIB), cache=np.full(len(node.group.time), cache * MIB * 1.0))
    found = profile(run.run([node]), [replace(node, group=group)])["memory"]
    assert (found.value, found.lower_bound) == (max(logged, 890) * MIB, is_bound)


def test_page_cache_in_the_log_is_no_need_where_the_jobs_cgroup_was_read() -> None:
    """Whatever the log says, unless it is more than the kernel's own maximum: the peak was reached after that."""
    log = {"used_memory_bytes": 9980 * MIB, "memory_with_cache": True, "used_cpu_s": 900.0}
    run = Made(1000.0, [Task(2800 * MIB, 0.0, 1000.0)], logged=log)
    (node,) = run.evidence()
    assert node.group is not None
    cache = np.full(len(node.group.time), 8000.0 * MIB)
    for peak, is_bound in ((10_200.0, False), (9_000.0, True)):
        group = replace(node.group, charged_peak=peak * MIB, cache=cache)
        found = profile(run.run([node]), [replace(node, group=group)])["memory"]
        assert (found.value, found.quantity, found.lower_bound) == (2800 * MIB, "resident", is_bound)
    found = profile(run.run([]), [])["memory"]
    assert (found.value, found.quantity, found.lower_bound) == (9980 * MIB, "with_cache", False)


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
