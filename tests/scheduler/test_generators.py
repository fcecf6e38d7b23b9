"""Synthetic workloads against the published distributions, and loads against their definition."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from jobsight_papers.schedules.lublin import (
    BATCH,
    INTERACTIVE,
    LublinParameters,
    daily_cycle,
    lublin,
    run_times,
    sizes,
    submissions,
)
from jobsight_scheduler.workload.canonical import canonical, offered_load, scaled_to
from jobsight_scheduler.workload.swf import FIELDS, read_swf, write_swf

JOBS = 40_000
KINDS = pytest.mark.parametrize("kind", [BATCH, INTERACTIVE], ids=["batch", "interactive"])


@KINDS
def test_sizes(kind: LublinParameters) -> None:
    nodes = sizes(kind, JOBS, 128, np.random.default_rng(1))
    serial = float((nodes == 1).mean())
    assert serial == pytest.approx(kind.serial, abs=0.01)
    powers = np.exp2(np.arange(1, 8))
    assert float(np.isin(nodes, powers).mean()) >= kind.power_of_two - 0.01
    # Of the powers of two, each has the share that two uniform stages give its logarithm, rounded.
    low, medium, high = kind.low, 7 - kind.medium, 7 - kind.high
    for power in range(2, 7):
        edges = np.array([power - 0.5, power + 0.5])
        first = np.diff(np.clip((edges - low) / (medium - low), 0, 1))[0]
        second = np.diff(np.clip((edges - medium) / (high - medium), 0, 1))[0]
        expected = kind.power_of_two * (kind.first_stage * first + (1 - kind.first_stage) * second)
        rest = 1 - kind.serial - kind.power_of_two  # of which a few are powers of two by chance
        assert expected - 0.01 <= float((nodes == 2**power).mean()) <= expected + 0.01 + rest / 2
    assert nodes.max() <= 2 ** round(high)


@KINDS
@pytest.mark.parametrize("nodes", [1, 64])
def test_logarithms_of_run_times_are_hyper_gamma(kind: LublinParameters, nodes: int) -> None:
    drawn = np.log(run_times(kind, np.full(JOBS, float(nodes)), np.random.default_rng(2)))
    share = min(1.0, max(0.0, kind.share_1[0] * nodes + kind.share_1[1]))

    def cdf(x: np.ndarray) -> np.ndarray:
        first = stats.gamma.cdf(x, kind.run_1[0], scale=kind.run_1[1])
        second = stats.gamma.cdf(x, kind.run_2[0], scale=kind.run_2[1])
        return share * first + (1 - share) * second

    assert drawn.max() <= 12.0
    assert stats.kstest(drawn, lambda x: cdf(x) / cdf(np.array(12.0))).pvalue > 0.001


@KINDS
def test_the_daily_cycle(kind: LublinParameters) -> None:
    shape, scale = kind.daily
    shares = daily_cycle(kind)
    edges = stats.gamma.cdf(np.arange(10.5, 59.0), shape, scale=scale)
    np.testing.assert_allclose(np.sort(shares), np.sort(np.diff(edges) / (edges[-1] - edges[0])), rtol=1e-9)
    busiest = math.floor((shape - 1) * scale)  # mode of the gamma distribution, in half hours since midnight
    assert abs(int(np.argmax(shares)) - (busiest - 1)) <= 1
    submitted = submissions(kind, JOBS, np.random.default_rng(4))
    assert (np.diff(submitted) >= 0).all()
    found = np.bincount((submitted % 86400 // 1800).astype(int), minlength=48) / JOBS
    # Long gaps make this noisy: a day has some hundred jobs, and they come in bursts.
    assert np.corrcoef(found, shares)[0, 1] > 0.9


def test_a_trace_is_reproducible_and_can_be_simulated(tmp_path: Path) -> None:
    trace = lublin(3000, 100, seed=5)
    again, other = lublin(3000, 100, seed=5), lublin(3000, 100, seed=6)
    assert all(np.array_equal(trace[name], again[name]) for name in FIELDS)
    assert not np.array_equal(trace["submit_s"], other["submit_s"])
    write_swf(trace, tmp_path / "l.swf.gz")
    workload = canonical(read_swf(tmp_path / "l.swf.gz"), 100)
    assert workload.counts == Counter(jobs=3000)
    with pytest.raises(ValueError, match="5 jobs on 4 processors"):
        lublin(5, 4, seed=1)


def test_load_is_what_arrives_of_what_there_is() -> None:
    workload = canonical(lublin(2000, 64, seed=7), 64)
    by_hand = sum(p * r for p, r in zip(workload.processors, workload.run_s, strict=True)) / 64 / workload.submit_s[-1]
    assert offered_load(workload, 64) == pytest.approx(by_hand)
    for load in (0.5, 0.9, 1.3):
        scaled = scaled_to(workload, 64, load)
        assert offered_load(scaled, 64) == pytest.approx(load)
        gaps = np.diff(workload.submit_s) > 0
        ratio = np.diff(scaled.submit_s)[gaps] / np.diff(workload.submit_s)[gaps]
        np.testing.assert_allclose(ratio, ratio[0])
    at_once = replace(workload, submit_s=np.zeros(2000))
    for jobs, load, message in (
        (workload, 0.0, "load of 0.0 cannot be offered"),
        (workload, float("inf"), "load of inf cannot be offered; give a share of the machine such as 0.8, at most 100"),
        (workload, 1e-300, r"load of 1e-300 stretches the workload beyond 1e\+11 s; give a higher one"),
        (at_once, 0.5, "have no load that can be measured or scaled"),
    ):
        with pytest.raises(ValueError, match=message):
            scaled_to(jobs, 64, load)
