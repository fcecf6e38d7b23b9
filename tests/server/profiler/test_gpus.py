"""The mean use of each GPU of a job, from gauges, against what was drawn: bursts, idle GPUs, holes, other labels."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.profiler.gpus import gpus_of

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
    assert (found["gpu_utilisation"].gpus or ())[0].busy == pytest.approx(0.5)
