"""The campus grid: a schedule worked by hand, and what must hold in every run."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_papers.ranking.choosers import AvailabilityOracle, Chooser, FirstCome, new_view
from jobsight_papers.ranking.grid import Attempt, CampusGrid, OnEviction
from jobsight_papers.ranking.job_sets import CampusJobs
from jobsight_papers.ranking.model_choosers import ResourceVectorRank
from jobsight_papers.ranking.owners import Availability

Sessions = list[list[tuple[float, float]]]


def availability(sessions: Sessions, to_s: float = 1e6) -> Availability:
    return Availability(
        [np.array([begin for begin, _ in of]) for of in sessions],
        [np.array([end for _, end in of]) for of in sessions],
        0.0,
        to_s,
    )


def jobs_of(submit: list[float], work: list[float]) -> CampusJobs:
    work_s = np.array(work, dtype=float)
    return CampusJobs(np.array(submit, dtype=float), work_s, work_s)


def run(
    sessions: Sessions,
    jobs: CampusJobs,
    kind: str = "first-come",
    speed: list[float] | None = None,
    on_eviction: OnEviction = "restart",
) -> CampusGrid:
    known = availability(sessions)
    view = new_view(np.array(speed or [1.0] * len(sessions)))
    choosers: dict[str, Chooser] = {
        "first-come": FirstCome(view),
        "grv": ResourceVectorRank(view),
        "oracle": AvailabilityOracle(view, known.ends, jobs.work_s),
    }
    grid = CampusGrid(jobs, known, choosers[kind], view, on_eviction)
    grid.run()
    return grid


FOREVER = (0.0, 1e9)


def test_an_evicted_job_starts_over_before_those_that_wait() -> None:
    """Machine 0 is lost at 100 and back at 150; jobs 0 and 1 start at once, 2 and 3 wait."""
    grid = run([[(0.0, 100.0), (150.0, 1e9)], [FOREVER]], jobs_of([10, 10, 20, 20], [120, 130, 30, 30]))
    assert sorted(grid.attempts, key=lambda one: one.end_s) == [
        Attempt(0, 0, 10.0, 100.0, False),
        Attempt(1, 1, 10.0, 140.0, True),
        Attempt(2, 0, 150.0, 180.0, True),
        Attempt(3, 0, 180.0, 210.0, True),
        Attempt(0, 1, 140.0, 260.0, True),
    ]
    assert grid.end_s.tolist() == [260.0, 140.0, 180.0, 210.0]
    assert grid.lost_s.tolist() == [90.0, 0.0, 0.0, 0.0]
    assert grid.waited_s.tolist() == [40.0, 0.0, 130.0, 160.0]
    assert grid.evictions.tolist() == [1, 0, 0, 0]


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["first-come", "grv", "oracle"]),
    st.sampled_from(["restart", "checkpoint"]),
)
def test_what_holds_in_every_run(seed: int, kind: str, on_eviction: OnEviction) -> None:
    rng = np.random.default_rng(seed)
    sessions: Sessions = []
    for _ in range(5):
        bounds = np.cumsum(rng.exponential(9000.0, 40))
        sessions.append(list(zip(bounds[::2].tolist(), bounds[1::2].tolist(), strict=True)))
        sessions[-1].append((float(bounds[-1]) + 10.0, 1e9))
    speed = rng.uniform(0.5, 2.0, 5)
    jobs = jobs_of(np.sort(rng.uniform(1000.0, 50_000.0, 25)).tolist(), rng.exponential(5000.0, 25).tolist())
    grid = run(sessions, jobs, kind, speed.tolist(), on_eviction)
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    of_job: dict[int, list[Attempt]] = defaultdict(list)
    for one in grid.attempts:
        spans[one.machine].append((one.start_s, one.end_s))
        of_job[one.job].append(one)
        assert any(begin <= one.start_s and one.end_s <= end for begin, end in sessions[one.machine])
    for of in spans.values():
        of.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(of)), "two jobs at once"
    lost = 0.0
    for job, of in of_job.items():
        assert [one.completed for one in of] == [False] * int(grid.evictions[job]) + [True]
        assert of[0].start_s >= jobs.submit_s[job]
        busy = sum(one.end_s - one.start_s for one in of)
        assert grid.waited_s[job] == pytest.approx(grid.end_s[job] - jobs.submit_s[job] - busy)
        evicted = [one.end_s - one.start_s for one in of if not one.completed]
        lost += sum(evicted) if on_eviction == "restart" else sum(length % 3600.0 for length in evicted)
        if on_eviction == "restart":
            assert (of[-1].end_s - of[-1].start_s) * speed[of[-1].machine] == pytest.approx(jobs.work_s[job])
        else:
            done = sum(
                speed[one.machine]
                * ((one.end_s - one.start_s) if one.completed else (one.end_s - one.start_s) // 3600.0 * 3600.0)
                for one in of
            )
            assert done == pytest.approx(jobs.work_s[job])
    assert len(of_job) == len(jobs), "completed and restarted jobs are all jobs"
    assert grid.lost_s.sum() == pytest.approx(lost)
