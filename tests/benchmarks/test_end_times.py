"""`benchmarks/end_times.py`: its scores beside plain loops, and two distributions of jobs that always run as long."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.question import Question

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from end_times import WITHIN, distributions, scores

GRID = np.arange(101) / 100


def test_scores_are_those_of_plain_loops() -> None:
    rng = np.random.default_rng(5)
    cdfs = np.sort(rng.uniform(size=(300, 101)), axis=1)
    ratios = rng.integers(1, 101, 300) / 100
    crps = np.mean(
        [(cdf[k] - (ratio <= GRID[k])) ** 2 for cdf, ratio in zip(cdfs, ratios, strict=True) for k in range(101)]
    )
    stated = [
        (cdf[round(100 * w)], ratio <= w) for cdf, ratio in zip(cdfs, ratios, strict=True) for w in WITHIN.tolist()
    ]
    off = 0.0
    for k in range(10):
        inside = [(p, came) for p, came in stated if min(int(10 * p), 9) == k]
        off += abs(sum(p for p, _ in inside) - sum(came for _, came in inside))
    assert scores(cdfs, ratios) == (pytest.approx(crps), pytest.approx(off / len(stated)))


def test_of_jobs_that_always_run_half_of_their_request_both_are_sure() -> None:
    n = 400
    begun = 1000.0 * np.arange(n)
    jobs = Jobs(
        name="half",
        metric="runtime",
        questions=[Question("ann", "cfd", requested_time_s=200.0)] * n,
        submitted=begun,
        ended=begun + 100.0,
        values=np.full(n, 100.0),
        seconds=np.full(n, 100.0),
        requested=np.full(n, 200.0),
        skipped={},
    )
    found, ratios = distributions(jobs)
    assert len(ratios) == n - 201
    for cdfs in found.values():
        assert np.all(cdfs[:, 49] < 0.1)
        assert np.all(cdfs[:, 100] == 1.0)
        assert scores(cdfs, ratios)[0] < 0.02
