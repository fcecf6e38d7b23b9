"""The runs of the co-allocation experiment, and what is concluded from their figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.traces import trace

from jobsight_papers.coallocation.results import account, worth
from jobsight_papers.coallocation.runs import ExperimentCase, run_case
from jobsight_papers.intervals import changes, holm, p_value
from jobsight_scheduler.figures import interval


def case(policy: str, seed: int = 0, scenario: str = "100 Mb/s", jobs: int = 0) -> ExperimentCase:
    return ExperimentCase("t.swf", scenario, policy, seed, jobs)


def figures(turnaround: float, saturated: float = 0.0) -> dict[str, float]:
    names = ("spread", "mean_stretch", "mean_bounded_slowdown", "useful_utilisation", "jobs_per_hour", "makespan_s")
    of_jobs = {"mean_turnaround_s": turnaround, "mean_wait_s": turnaround / 2 - 25.0, "jobs": 3.0}
    return of_jobs | {"saturated": saturated, **dict.fromkeys(names, 1.0)}


def test_policies_are_compared_pair_by_pair() -> None:
    none, ours, oracle = [100.0, 900.0, 50.0], [90.0, 830.0, 44.0], [91.0, 800.0, 45.0]
    finished = [
        (case(policy, seed), figures(values[seed], 0.01 * seed))
        for policy, values in (("none", none), ("aware means", ours), ("aware oracle", oracle))
        for seed in (2, 0, 1)
    ]
    finished += [(case("none", 7), figures(1.0)), (case("naive", 8), figures(1.0))]
    rows = {row["policy"]: row for row in account(finished)}
    assert list(rows) == ["none", "aware means", "aware oracle"]
    change = 100.0 * (np.array(ours) / np.array(none) - 1.0)
    low, high = stats.t.interval(0.95, 2, change.mean(), stats.sem(change))
    assert rows["aware means"]["turnaround_percent"] == pytest.approx([change.mean(), low, high])
    assert rows["aware means"]["saturated"] == pytest.approx(0.01)
    assert rows["none"]["turnaround_percent"] == [0.0, 0.0, 0.0]
    assert rows["aware means"]["throughput_percent"] == [0.0, 0.0, 0.0]
    assert rows["aware means"]["wait_percent"] == [None, None, None]  # no job waited in the third draw
    (beside,) = worth(finished)
    behind = change - 100.0 * (np.array(oracle) / np.array(none) - 1.0)
    assert (beside["against"], beside["verdict"]) == ("aware oracle", "no difference")
    assert beside["points"][0] == pytest.approx(behind.mean())
    t = behind.mean() / stats.sem(behind)
    assert beside["p_holm"] == beside["p"] == pytest.approx(2 * stats.t.sf(abs(t), 2))  # a single cell
    alone = account([(run, given) for run, given in finished if run.seed == 2])
    assert alone[1]["turnaround_percent"][1:] == [None, None]


def test_the_rival_is_the_constant_that_hindsight_would_choose() -> None:
    turnaround = {"none": 100.0, "constant 20": 130.0, "constant 40": 96.0, "constant 80": 98.0, "aware means": 95.0}
    finished = [(case(policy, seed), figures(of + seed)) for policy, of in turnaround.items() for seed in (0, 1)]
    (beside,) = worth(finished)
    assert (beside["against"], beside["constant"]) == ("best constant", "constant 40")
    assert beside["points"][0] == pytest.approx(np.mean([-1.0, -100.0 / 101.0]))


def holm_by_hand(values: list[float]) -> list[float]:
    """The i-th smallest of m times m - i + 1, never less than one before, at most 1."""
    order, most, corrected = sorted(range(len(values)), key=values.__getitem__), 0.0, [0.0] * len(values)
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = most
    return corrected


def test_statistics_of_pairs() -> None:
    values = [0.04, 0.001, 0.03, 0.9, 0.012, 0.001]
    assert holm(values) == pytest.approx(holm_by_hand(values))
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert holm([None]) == [None]
    assert p_value(np.array([1.0, 2.0, 4.0])) == pytest.approx(stats.ttest_1samp([1.0, 2.0, 4.0], 0.0).pvalue)
    assert (p_value(np.array([2.0, 2.0])), p_value(np.zeros(3)), p_value(np.ones(1))) == (0.0, 1.0, None)
    assert interval(np.array([1.0, np.nan])) == [None, None, None]
    assert interval(np.array([3.0])) == [3.0, None, None]
    ours, none = {0: {"x": 3.0}, 1: {"x": 5.0}}, {0: {"x": 2.0}, 1: {"x": 0.0}}
    np.testing.assert_array_equal(changes(ours, none, "x", [0, 1]), [50.0, np.nan])


@pytest.mark.exhaustive
@pytest.mark.slow
def test_knowledge_prevents_the_collapse_on_a_real_trace() -> None:
    """A small part of what papers/jobsight_papers/coallocation/README.md shows, with the same figures."""
    file = trace("KTH-SP2-1996-2.1-cln.swf.gz")
    policies = ("none", "naive", "constant 40", "aware means", "aware oracle")
    wanted = [ExperimentCase(file.name, "100 Mb/s", policy, seed) for policy in policies for seed in range(2)]
    rows = {row["policy"]: row for row in account((run, run_case(run, file)) for run in wanted)}
    assert rows["naive"]["turnaround_percent"][0] > 1000.0
    assert -14.2 < rows["aware means"]["turnaround_percent"][0] < -11.2
    assert rows["aware means"]["saturated"] < 0.01
    assert -15.4 < rows["aware oracle"]["turnaround_percent"][0] < -12.4
