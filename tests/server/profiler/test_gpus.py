"""The mean use of each GPU of a job against the true one, from monitoring and from agents' readings."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert, update
from tests import make

from jobsight_server.learning.finished import profile_finished
from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.profiler.gpus import gpus_of
from jobsight_server.storage.readings.gpu_columns import GpuColumns, pack_gpus
from jobsight_server.storage.schema import gpu_samples, jobs

START, LIFE_S = 1_700_000_000.0, 3600.0
END = START + LIFE_S
GIB = 2.0**30

NAMES = ("uuid", "UUID", "gpu_uuid", "gpu", "minor_number", "ordinal", "index")


def gauge(labels: dict[str, str], of: Callable[[float], float], interval_s: float, phase_s: float) -> MetricSeries:
    time = np.arange(START + phase_s, END, interval_s)
    return MetricSeries(labels, time, np.array([of(float(at)) for at in time]))


def burst(begin: float, length_s: float, level: float) -> Callable[[float], float]:
    return lambda at: level if begin <= at - START < begin + length_s else 0.0


@pytest.mark.parametrize("variant", range(50))
def test_the_mean_is_that_of_the_whole_life_and_not_of_a_burst(variant: int) -> None:
    rng = random.Random(variant)
    interval_s, count = rng.choice((5.0, 15.0, 30.0, 60.0)), rng.choice((1, 2, 4, 8))
    nodes: dict[str, dict[str, list[MetricSeries]]] = {}
    truth = {}
    name, is_sliced = rng.choice(NAMES), rng.random() < 0.3
    for number in range(count):
        node = f"n{number % rng.choice((1, 2)) + 1}"
        labels = {name: f"GPU-{number}", "gpu_type": "a"} | ({"GPU_I_ID": "7"} if is_sliced else {})
        begin, length_s, level = rng.uniform(0, 3000), rng.choice((0.0, 30.0, 300.0, 3600.0)), rng.random()
        busy = min(length_s, LIFE_S - begin) * level / LIFE_S
        truth[f"{node}/GPU-{number}" + ("/7" if is_sliced else "")] = (busy, level)
        phase_s = rng.uniform(0.0, interval_s)
        series = nodes.setdefault(node, {})
        use = gauge(labels, burst(begin, length_s, level), interval_s, phase_s)
        series.setdefault("gpus_busy", []).append(use)
        series.setdefault("gpu_memory_bytes", []).append(gauge(labels, lambda _: 5 * GIB, interval_s, phase_s))
        series.setdefault("gpu_memory_total_bytes", []).append(gauge(labels, lambda _: 80 * GIB, interval_s, phase_s))
    found = gpus_of(nodes, START, END, count)  # type: ignore[arg-type]
    each = {one.gpu: one for one in found["gpu_utilisation"].gpus or ()}
    assert each.keys() == truth.keys()
    for gpu, (busy, level) in truth.items():
        assert each[gpu].busy == pytest.approx(busy, abs=level * 2 * interval_s / LIFE_S + 1e-9)
        assert (each[gpu].memory_bytes, each[gpu].memory_total_bytes) == (5 * GIB, 80 * GIB)
    assert found["gpu_utilisation"].mean == pytest.approx(sum(one.busy or 0.0 for one in each.values()))
    assert found["gpu_memory"].value == 5 * GIB * count


def test_an_idle_gpu_beside_a_busy_one_is_held_for_nothing() -> None:
    series = [
        gauge({"gpu": str(n)}, burst(0, LIFE_S, level), 15.0, 3.0) for n, level in enumerate((1.0, 0.0, 0.0, 0.0))
    ]
    found = gpus_of({"n1": {"gpus_busy": series}}, START, END, 4)["gpu_utilisation"]
    assert (found.value, found.mean) == (1.0, pytest.approx(1.0))
    assert [one.busy for one in found.gpus or ()] == pytest.approx([1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("held", [2, 4])
def test_gpus_that_were_not_read_leave_the_mean_unknown(held: int) -> None:
    whole = gauge({"gpu": "0"}, burst(0, LIFE_S, 0.5), 15.0, 3.0)
    half = MetricSeries({"gpu": "1"}, whole.time[:120], whole.value[:120])
    found = gpus_of({"n1": {"gpus_busy": [whole, half] if held == 2 else [whole]}}, START, END, held)
    assert found["gpu_utilisation"].mean is None
    assert found["gpu_utilisation"].lower_bound is (held == 4)
    assert (found["gpu_utilisation"].gpus or ())[0].busy == pytest.approx(0.5)


class Agents:
    """Nodes ``n1`` and ``n2``, whose agents read GPUs every 10 s from 900 to 1300, in batches of six readings."""

    def __init__(self, site: Any) -> None:
        self.site = site
        self.nodes = {name: site.node(name, [(at, 0, 0, 0.0, GIB, 0.0) for at in TIMES]) for name in ("n1", "n2")}

    def read(self, node: str, gpus: dict[str, Callable[[float], int | None]], memory: int | None = 5 * 2**30) -> None:
        with self.site.engine.begin() as connection:
            for begin in range(0, len(TIMES), 6):
                time = TIMES[begin : begin + 6]
                columns = [
                    GpuColumns(gpu, [busy(at) for at in time], [memory] * len(time), 64 * 2**30)
                    for gpu, busy in gpus.items()
                ]
                row = {"first_time": time[0], "last_time": time[-1], "readings": pack_gpus(time, columns)}
                connection.execute(insert(gpu_samples).values(node_id=self.nodes[node], **row))

    def profile(self, run: int) -> dict[str, Any]:
        profile_finished(self.site.engine, 0.0, lambda: 1e6)
        return {name: row for name, row in self.site.profile(run).items() if name.startswith("gpu")}


@pytest.fixture
def agents(sqlite_site: Any) -> Agents:
    return Agents(sqlite_site)


TIMES = [900.0 + 10 * n for n in range(41)]
BUSY: dict[str, Callable[[float], int | None]] = {
    "card0": lambda at: 80 if at >= 1100 else 0,  # half of the life from 1000 to 1200
    "card1": lambda at: 0 if 1000 <= at <= 1200 else 100,  # others', before and after
}


@pytest.mark.storage
@pytest.mark.parametrize(
    ("held", "beside"),
    [(2, {}), (1, {}), (2, {"n1": 2}), (None, {})],
    ids=["all", "one, alone", "all, beside a job", "unknown, alone"],
)
def test_gpus_read_by_agents_are_those_of_a_job_that_had_them_all(
    site: Any, held: int | None, beside: dict[str, int]
) -> None:
    agents = Agents(site)
    agents.read("n1", BUSY)
    run = site.run("1.s", 1000.0, 1200.0, {"n1": 2}, gpus=held)
    if beside:
        site.run("2.s", 950.0, 1250.0, beside)
    found = agents.profile(run)
    busy, memory = found["gpu_utilisation"], found["gpu_memory"]
    assert (busy.value, busy.mean) == (0.8, pytest.approx(0.4, abs=0.03))
    assert (memory.value, memory.source, memory.attribution) == (10 * GIB, "samples", "exclusive")
    assert (busy.lower_bound, memory.lower_bound, busy.shown_only) == (False, False, False)
    first, second = json.loads(busy.gpus)
    assert (first["gpu"], second["gpu"], second["busy"]) == ("n1/card0", "n1/card1", 0.0)
    assert (first["memory_bytes"], first["memory_total_bytes"]) == (5 * GIB, 64 * GIB)


def test_a_job_of_two_nodes_has_the_gpus_of_both(sqlite_site: Any, agents: Agents) -> None:
    for node in agents.nodes:
        agents.read(node, BUSY)
    run = sqlite_site.run("1.s", 1000.0, 1200.0, {"n1": 2, "n2": 2}, gpus=4)
    found = agents.profile(run)
    assert (found["gpu_utilisation"].value, found["gpu_utilisation"].mean) == (1.6, pytest.approx(0.8, abs=0.06))
    assert found["gpu_memory"].value == 20 * GIB


@pytest.mark.parametrize(
    ("held", "others", "reason"),
    [
        (1, {"n1": 1}, "other jobs were on its nodes, and which of their GPUs it held is unknown"),
        (2, {"n2": 1}, "other jobs were on its nodes, and which of their GPUs it held is unknown"),  # n2 has some too
    ],
)
def test_gpus_of_a_shared_node_are_unknown_with_the_reason(
    sqlite_site: Any, agents: Agents, held: int, others: dict[str, int], reason: str
) -> None:
    agents.read("n1", BUSY)
    run = sqlite_site.run("1.s", 1000.0, 1200.0, {"n1": 1, "n2": 1}, gpus=held)
    sqlite_site.run("2.s", 1000.0, 1200.0, others)
    found = agents.profile(run)
    assert {(row.value, row.reason) for row in found.values()} == {(None, reason)}


def test_readings_that_lack_some_gpus_are_bounds_and_without_any_there_is_none(
    sqlite_site: Any, agents: Agents
) -> None:
    agents.read("n1", {"card0": BUSY["card0"], "card1": lambda _: None}, memory=None)
    agents.read("n2", {"card0": lambda at: 7 if at < 1000 else None}, memory=None)
    half = sqlite_site.run("1.s", 1000.0, 1200.0, {"n1": 1}, gpus=2)
    never = sqlite_site.run("2.s", 1000.0, 1200.0, {"n2": 1}, gpus=1)
    found = agents.profile(half)
    assert (found["gpu_utilisation"].value, found["gpu_utilisation"].mean) == (0.8, None)
    assert found["gpu_utilisation"].reason == "a lower bound: not all of its GPUs were read"
    missing = {row.reason for row in agents.profile(never).values()}
    assert missing == {"no readings of its GPUs within its life"}


def test_idle_gpus_of_a_node_are_none_of_a_job_without_gpus(sqlite_site: Any, agents: Agents) -> None:
    agents.read("n1", {"card0": lambda _: 0})
    assert agents.profile(sqlite_site.run("1.s", 1000.0, 1200.0, {"n1": 1})) == {}


def test_what_the_log_has_stays_where_agents_cannot_say(sqlite_site: Any, agents: Agents) -> None:
    agents.read("n1", BUSY)
    run = sqlite_site.run("1.s", 1000.0, 1200.0, {"n1": 1}, gpus=1)
    make.execute(sqlite_site.engine, update(jobs).where(jobs.c.id == run).values(used='{"gpu_memory": 7.0}'))
    sqlite_site.run("2.s", 1000.0, 1200.0, {"n1": 1}, gpus=1)
    assert agents.profile(run)["gpu_memory"].value == 7.0
