"""A job's memory: its peak over all nodes together, its time average, and the node's idle level."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.server.profiler.conftest import reason

from jobsight_server.learning.finished import profile_finished
from jobsight_server.profiler.memory import (
    FRESH_S,
    Idle,
    MemoryUse,
    NodeMemory,
    idle_before,
    idle_beside,
    node_memory,
    together,
)
from jobsight_server.profiler.runs import Readings, to_readings
from jobsight_server.profiler.usage import JobInterval, Missing
from jobsight_server.storage.readings.sample_columns import SampleColumns
from jobsight_server.storage.schema import series

GIB = 2**30
MIB = 2**20


def readings(levels: dict[float, float], unit: int = GIB) -> Readings:
    rows = [(t, 0, 0, 0.0, int(level * unit), 0.0) for t, level in levels.items()]
    return to_readings(SampleColumns.of_rows(rows))


def held(found: NodeMemory | Missing) -> NodeMemory:
    assert isinstance(found, NodeMemory), found
    return found


def use(*nodes: NodeMemory | Missing) -> MemoryUse:
    return together([held(node) for node in nodes])


def test_one_node_has_its_highest_reading_and_the_time_average_less_the_idle_level() -> None:
    # 1 GiB idle, the hooks' readings at 100 and 400; 5 GiB for 100 s, then a ramp to 9 GiB within 100 s.
    node = readings({40: 1, 100: 1, 150: 5, 250: 5, 350: 9, 400: 1, 460: 1})
    interval = JobInterval(100, 400, 4)
    idle = idle_beside(node, interval, True, True, [])
    assert idle == Idle(GIB, 0.0)
    found = use(node_memory(node, interval, [], idle.bytes))
    assert found.mean == pytest.approx((100 * 4 + 100 * 6) / 200 * GIB)
    assert found.peak == pytest.approx(8 * GIB)


def by_hand(nodes: Sequence[dict[float, float]], interval: JobInterval, good_for_s: float) -> float:
    """The largest sum over ``nodes``, instant by instant and node by node."""
    best = 0.0
    for instant in sorted({t for levels in nodes for t in levels if interval.start < t < interval.end}):
        total = 0.0
        for levels in nodes:
            inner = [t for t in levels if interval.start < t < interval.end]
            before = [t for t in inner if t <= instant]
            nearest = before[-1] if before else inner[0]
            if (instant - nearest if before else nearest - instant) >= good_for_s:
                break
            total += levels[nearest]
        else:
            best = max(best, total)
    return best


@pytest.mark.parametrize("seed", range(20))
def test_the_peak_equals_a_sum_by_hand(seed: int) -> None:
    rng = random.Random(seed)
    interval = JobInterval(1000.0, 3000.0, 1)
    nodes: list[dict[float, float]] = []
    for _ in range(rng.randrange(1, 6)):
        phase = rng.random() * 60
        times = [phase + 60 * i + rng.uniform(-3, 3) for i in range(-4, 72)]
        nodes.append({t: rng.randrange(1, 1000) for t in times if rng.random() > 0.03})
    found = use(*(node_memory(readings(levels, 1), interval, [], 0.0) for levels in nodes))
    assert found.peak == pytest.approx(by_hand(nodes, interval, 120.0), rel=1e-3)


def test_memory_of_a_shared_node_is_split_by_processors_held() -> None:
    node = readings(dict.fromkeys(range(0, 601, 100), 8))
    found = use(node_memory(node, JobInterval(50, 550, 1), [JobInterval(300, 900, 3)], 0.0))
    # Inside are the readings 100 .. 500: alone for 200 s, then with a quarter of the processors held.
    assert found.mean == pytest.approx((200 * 8 + 200 * 2) / 400 * GIB)
    assert found.peak == pytest.approx(8 * GIB)


@pytest.mark.parametrize(
    ("levels", "interval", "idle", "expected"),
    [
        ({}, JobInterval(0, 100, 1), 0, "no samples of n1"),
        ({0: 1, 60: 1, 120: 1}, JobInterval(0, 120, 1), 0, "fewer than 2 memory readings of n1 within its life"),
        (
            dict.fromkeys(range(0, 600, 60), 1),
            JobInterval(0, 500, 1),
            2,
            "n1 used less memory during its life than before",
        ),
    ],
)
def test_what_cannot_be_known_has_a_reason(
    levels: dict[float, float], interval: JobInterval, idle: float, expected: str
) -> None:
    assert expected in reason(node_memory(readings(levels), interval, [], idle * GIB))


@pytest.mark.parametrize("times", [range(0, 500, 60), [0, 60, 120, 180, 800, 860, 920, 980, 1040]])
def test_the_peak_may_lie_in_the_half_of_its_life_that_was_not_read(times: Sequence[float]) -> None:
    assert not held(node_memory(readings(dict.fromkeys(times, 1)), JobInterval(10, 1000, 1), [], 0.0)).is_whole


def test_readings_for_other_jobs_do_not_take_the_memory_away() -> None:
    """Ninety jobs start beside it within a second: their hooks have the agent read ninety times more."""
    regular = [float(t) for t in range(10, 600, 10)]
    marked = [300 + number / 90 for number in range(1, 90)]
    found = use(node_memory(readings(dict.fromkeys(sorted([*regular, *marked]), 2)), JobInterval(0, 600, 1), [], 0.0))
    assert found == MemoryUse(2 * GIB, 2 * GIB, True)
    few = [t for t in regular if not 220 < t < 380]
    again = node_memory(readings(dict.fromkeys(sorted([*few, *marked]), 2)), JobInterval(0, 600, 1), [], 0.0)
    assert not held(again).is_whole


def test_nodes_that_were_read_at_different_times_have_no_sum() -> None:
    interval = JobInterval(0, 2400, 1)
    times = [float(t) for t in range(60, 2400, 60)]
    parts = [
        held(node_memory(readings({t: 1 for t in times if not hole[0] < t < hole[1]}), interval, [], 0.0))
        for hole in ((300, 600), (900, 1200))
    ]
    assert all(part.is_whole for part in parts)
    assert not together(parts).is_whole


def test_the_idle_level_is_only_read_off_a_node_without_a_job() -> None:
    node = readings({40: 3, 100: 2, 150: 5, 400: 1, 460: 1}, 1)
    interval = JobInterval(100, 300, 4)
    assert idle_beside(node, interval, True, False, []) == Idle(2, 0)
    assert idle_beside(node, interval, False, False, []) == Idle(3, 60)
    # Another job until just before ours: what was read then is its memory, so the first reading after ours.
    assert idle_beside(node, interval, False, False, [JobInterval(0, 90, 1)]) == Idle(1, 100)
    assert idle_beside(node, interval, False, False, [JobInterval(0, 90, 1), JobInterval(310, 900, 1)]) is None
    # Silent for more than a day before and after.
    assert idle_beside(readings({0: 1, 200_000: 1}), JobInterval(90_000, 110_000, 1), False, False, []) is None


def busy_node(base: float = 0.0) -> list[tuple[Any, ...]]:
    """768 MiB without jobs, 300 more with one; jobs from 600 on, of ten minutes each, without a second between."""
    return [
        (base + t, 0, 0, 0.0, (768 + (300 if t >= 600 else 0)) * MIB, 0.0)
        for t in (float(i) for i in range(0, 3601, 60))
    ]


@pytest.mark.storage
def test_jobs_back_to_back_read_what_they_used_by_the_remembered_idle_level(site: Any) -> None:
    site.node("n1", busy_node())
    runs = [site.run(f"{i}.s", 600 * i, 600 * (i + 1), {"n1": 1}, submitted=0.0) for i in range(1, 6)]
    site.run("6.s", 3600, None, {"n1": 1})
    assert profile_finished(site.engine, 0.0, lambda: 1e9) == 5
    found = [site.profile(run)["memory"] for run in runs]
    assert [row.value / MIB for row in found] == [pytest.approx(300)] * 5
    assert [row.mean / MIB for row in found] == [pytest.approx(300)] * 5
    assert [row.source for row in found] == ["samples"] + ["samples-idle-remembered"] * 4
    assert [row.idle_age_s for row in found] == [60, 660, 1260, 1860, 2460]
    assert all(row.attribution == "exclusive" for row in found)


def test_an_idle_level_that_is_not_known_is_not_zero(site: Any) -> None:
    """The node was never seen without a job, or more than a day ago: no value, the reason, and nothing learned."""
    day = FRESH_S
    site.node("n1", [(0.0, 0, 0, 0.0, 768 * MIB, 0.0), *busy_node(base=day)])
    site.run("0.s", 30, day + 600, {"n1": 1})
    run = site.run("1.s", day + 600, day + 1200, {"n1": 1}, user="u2")
    site.run("2.s", day + 1200, None, {"n1": 1})
    logged = site.run("3.s", day + 1200, day + 1800, {"n1": 1}, user="u2", used_memory_bytes=300 * MIB)
    with site.engine.connect() as connection:
        assert idle_before(connection, 1, day + 600, [JobInterval(30, day + 600, 1)]) is None
        assert idle_before(connection, 1, day + 600 - 700, [JobInterval(30, day + 600, 1)]) == Idle(
            768 * MIB, day - 100, remembered=True
        )
    assert profile_finished(site.engine, 0.0, lambda: 1e9) == 3
    row = site.profile(run)["memory"]
    assert (row.value, row.mean, row.source) == (None, None, "samples-idle-unknown")
    assert row.reason == "the idle memory of n1 is unknown: no reading without a job within a day"
    # The log's own peak needs no idle level; the average beside it does.
    assert (site.profile(logged)["memory"].value, site.profile(logged)["memory"].mean) == (300 * MIB, None)
    learned = {(series_row[1], series_row[2]): series_row[3] for series_row in site.dump(series)}
    assert learned["u2", "memory"] == 1
