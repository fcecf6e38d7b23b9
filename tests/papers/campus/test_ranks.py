"""Which machine each rank chooses, that none looks ahead, and that survival beats GRV beats first come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from jobsight_papers.intervals import interval
from jobsight_papers.ranking.choosers import new_view
from jobsight_papers.ranking.draws import draw
from jobsight_papers.ranking.model_choosers import ResourceVectorRank
from jobsight_papers.ranking.results import by_seed, gains, published, row
from jobsight_papers.ranking.runs import RankingCase, run_case, simulate

H = 3600.0
FEW = np.arange(4)


def test_grv_chooses_as_worked_by_hand() -> None:
    view = new_view(np.array([1.0, 1.0, 2.0, 1.0]))
    view.since_s[:] = [10 * H, 4 * H, 28 * H, 4 * H]
    rank = ResourceVectorRank(view)
    # At 28 h: RA .75, 1, 0, 1; JS 1/2 each; CA .5, .5, 1, .5.
    assert rank.choose(0, 28 * H, FEW) == 1, "the lower number of 1 and 3"
    rank.evicted(1)
    assert rank.choose(0, 28 * H, FEW) == 3
    for _ in range(9):
        rank.finished(2)  # JS 29/40: 0 + .725 + 1 < 1 + .5 + .5
    assert rank.choose(0, 28 * H, FEW) == 3
    for _ in range(2):
        rank.finished(2)  # JS 31/40
    for _ in range(12):
        rank.evicted(3)  # JS 8/40
    assert rank.choose(0, 28 * H, FEW) == 1
    assert rank.choose(0, 40 * H, FEW) == 2, "RA is .5 there now"
    halves = ResourceVectorRank(view, (0.5, 0.5, 0.0))
    assert halves.choose(0, 28 * H, np.array([0, 2])) == 0


@pytest.mark.parametrize("rank", ["grv", "fewest-evictions", "longest-mean", "survival"])
def test_no_rank_but_the_oracle_looks_ahead(rank: str) -> None:
    """The first 20 choices are the same if every owner that has not come by then comes a day later."""
    drawn = draw(2, None, 0.3, 12, "departments")
    known_s = float(drawn.jobs.submit_s[19])
    jobs = replace(drawn.jobs, submit_s=drawn.jobs.submit_s[:20], work_s=drawn.jobs.work_s[:20] + 12 * H)
    machines = []
    for later_s in (0.0, 24 * H):
        shifted = replace(
            drawn.availability,
            begins=[np.where(times > known_s, times + later_s, times) for times in drawn.availability.begins],
            ends=[np.where(times > known_s, times + later_s, times) for times in drawn.availability.ends],
        )
        grid = simulate(RankingCase(2, rank, seed=12), replace(drawn, jobs=jobs, availability=shifted))
        started = sorted((one.start_s, one.job, one.machine) for one in grid.attempts)
        machines.append([one for one in started if one[0] <= known_s])
    assert machines[0] == machines[1]
    assert len(machines[0]) >= 20


@pytest.mark.exhaustive
def test_survival_beats_grv_and_first_come_on_draws_of_its_own() -> None:
    shares = {
        rank: np.array([run_case(RankingCase(2, rank, seed=seed))["completed_share"] for seed in (500, 501)])
        for rank in ("first-come", "grv", "survival", "oracle")
    }
    assert (shares["grv"] > shares["first-come"]).all()
    assert (shares["survival"] > shares["grv"]).all()
    assert (shares["oracle"] > 0.99).all()


def test_rows_intervals_and_gains() -> None:
    values = [0.5, 0.6, 0.8]
    low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert interval(values) == pytest.approx({"mean": np.mean(values), "low": low, "high": high})
    assert interval([0.5]) == {"mean": 0.5, "low": None, "high": None}
    assert interval([0.5, 0.5]) == {"mean": 0.5, "low": 0.5, "high": 0.5}
    figures = {"makespan_s": 10.0, "lost_cpu_h": 1.0, "mean_wait_s": 3.0}
    found = by_seed(
        (RankingCase(1, rank, seed=seed), figures | {"completed_share": base + 0.1 * seed})
        for rank, base in (("first-come", 0.5), ("grv", 0.6), ("survival", 0.75))
        for seed in range(3)
    )
    rows = [row(case, runs) for case, runs in found.items()]
    assert rows[1]["completed_share"] == interval([0.6, 0.7, 0.8])
    gained = {(of["rank"], of["over"]): of["gain"]["mean"] for of in gains(found)}
    assert gained == pytest.approx(
        {("grv", "first-come"): 0.1, ("survival", "first-come"): 0.25, ("survival", "grv"): 0.15}
    )
    table = published(rows)
    assert [of["set"] for of in table] == [1, 2, 3, 4]
    assert table[0]["grv"] == pytest.approx(
        {"printed": 91.5, "counted": 91.456, "ours": 70.0, "ours_without_speed": None}, abs=0.01
    )
