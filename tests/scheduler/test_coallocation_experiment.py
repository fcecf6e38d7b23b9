"""The runs of the co-allocation experiment, and what is concluded from their figures."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from jobsight_scheduler.experiments.coallocation_results import account, claims
from jobsight_scheduler.experiments.coallocation_runs import (
    LOADS,
    UPLINKS_MBPS,
    ExperimentCase,
    block,
    cases,
    run_case,
)
from jobsight_scheduler.experiments.coallocation_variants import COMPARED, SENSITIVITY
from jobsight_scheduler.experiments.coallocation_worth import worth
from jobsight_scheduler.experiments.paired_blocks import changes, holm, interval, p_value
from jobsight_scheduler.workload.canonical import canonical
from jobsight_scheduler.workload.lublin import lublin
from jobsight_scheduler.workload.swf import write_swf

TRACES = Path(os.environ.get("JOBSIGHT_TRACES", Path(__file__).parents[3] / "shared" / "traces"))


def test_the_sweep_has_every_run_once() -> None:
    found = list(cases(["a", "b"], 10))
    assert len(set(found)) == len(found)
    per_load = 1 + len(UPLINKS_MBPS) * (len(COMPARED) - 1)
    assert len(found) == 2 * 10 * (len(LOADS) * per_load + 2 * len(SENSITIVITY))
    assert len(list(cases(["a"], 3, sensitivity=False))) == 3 * len(LOADS) * per_load
    whole_seeds = [case.seed for case in found]
    assert whole_seeds == sorted(whole_seeds)


def test_blocks_have_no_job_in_common() -> None:
    whole = canonical(lublin(1000, 32, seed=1), 32)
    for blocks, jobs in ((10, 2_000), (10, 70), (3, 2_000)):
        parts = [block(whole, jobs, seed, blocks) for seed in range(blocks)]
        rows = np.concatenate([part.row for part in parts])
        assert len(set(rows.tolist())) == len(rows) == blocks * min(jobs, len(whole) // blocks)
        assert all(part.submit_s[0] == 0.0 for part in parts)
    part = block(whole, 70, 3, 10)
    first = 3 * (len(whole) // 10)
    np.testing.assert_array_equal(part.run_s, whole.run_s[first : first + 70])
    assert block(whole, 0, 3, 10) is whole
    with pytest.raises(ValueError, match="jobs make no 600 blocks of at least two"):
        block(whole, 10, 0, 600)
    assert {case.blocks for case in cases(["a"], 3)} == {10}
    assert {case.blocks for case in cases(["a"], 12)} == {12}


def test_other_machines_and_policies() -> None:
    found = list(cases(["a"], 1, (100,), (0.8,), sensitivity=False, clusters=(84,) * 4, policies=("constant",)))
    assert [case.policy for case in found] == ["none", "constant"]
    assert {case.clusters for case in found} == {(84, 84, 84, 84)}
    assert found[0].key[-1] == "84,84,84,84"


def test_a_run_can_be_done_again(tmp_path: Path) -> None:
    file = tmp_path / "t.swf"
    write_swf(lublin(600, 32, seed=1), file)
    case = ExperimentCase("t.swf", "aware predicted", 100, 0.8, 1, jobs=300, blocks=2)
    first, again = run_case(case, file), run_case(case, file)
    assert first == again
    assert first["jobs"] == 300
    assert run_case(ExperimentCase("t.swf", "none", 0.0, 0.8, 1, jobs=300, blocks=2), file)["spread"] == 0.0
    assert run_case(ExperimentCase("t.swf", "aware oracle", 100, 0.8, 1, jobs=300, blocks=2), file)["saturated"] == 0.0


def figures(turnaround: float, saturated: float = 0.0) -> dict[str, float]:
    names = ("spread", "mean_stretch", "mean_bounded_slowdown", "useful_utilisation", "jobs_per_hour", "makespan_s")
    of_jobs = {"mean_turnaround_s": turnaround, "mean_wait_s": turnaround / 2 - 25.0, "jobs": 3.0}
    return of_jobs | {"saturated": saturated, **dict.fromkeys(names, 1.0)}


def test_policies_are_compared_pair_by_pair() -> None:
    none, ours, oracle = [100.0, 900.0, 50.0], [90.0, 830.0, 44.0], [91.0, 800.0, 45.0]
    finished = [
        (ExperimentCase("t", policy, uplink, 0.8, seed), figures(values[seed], 0.01 * seed))
        for policy, uplink, values in (("none", 0, none), ("aware predicted", 100, ours), ("aware oracle", 100, oracle))
        for seed in (2, 0, 1)
    ]
    finished += [
        (ExperimentCase("t", "none", 0, 0.8, 7), figures(1.0)),
        (ExperimentCase("t", "naive", 100, 0.8, 8), figures(1.0)),
    ]
    rows = {row["policy"]: row for row in account(finished)}
    assert list(rows) == ["none", "aware predicted", "aware oracle"]
    change = 100.0 * (np.array(ours) / np.array(none) - 1.0)
    low, high = stats.t.interval(0.95, 2, change.mean(), stats.sem(change))
    assert rows["aware predicted"]["turnaround_percent"] == pytest.approx([change.mean(), low, high])
    behind = change - 100.0 * (np.array(oracle) / np.array(none) - 1.0)
    assert rows["aware predicted"]["oracle_points"][0] == pytest.approx(behind.mean())
    assert rows["aware predicted"]["saturated"] == pytest.approx(0.01)
    assert rows["none"]["turnaround_percent"] == [0.0, 0.0, 0.0]
    assert rows["aware predicted"]["throughput_percent"] == [0.0, 0.0, 0.0]
    assert rows["aware predicted"]["wait_percent"] == [None, None, None]  # nobody waited in the third block
    t = change.mean() / stats.sem(change)
    assert rows["aware predicted"]["p"] == pytest.approx(2 * stats.t.sf(abs(t), 2))
    assert rows["aware predicted"]["p_holm"] == rows["aware predicted"]["p"]  # a single cell
    (claim,) = claims(rows.values())
    assert (claim["better"], claim["near_oracle"], claim["links_free"]) == (high < 0.0, True, True)
    (beside,) = worth(finished)
    assert (beside["against"], beside["verdict"]) == ("aware oracle", "no difference")
    assert beside["points"][0] == pytest.approx(behind.mean())
    (worse,) = claims(rows.values(), "aware oracle")
    assert worse["near_oracle"]
    (alone,) = account(finished[:1] + [(case, told) for case, told in finished[3:6] if case.seed == 2])[1:]
    assert alone["turnaround_percent"][1:] == [None, None]


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


def test_what_is_better_in_one_of_many_cells_may_be_chance() -> None:
    rng = np.random.default_rng(2)
    finished = []
    for uplink in range(1, 41):
        for seed in range(5):
            finished += [
                (ExperimentCase("t", "aware predicted", uplink, 0.8, seed), figures(100.0 + rng.standard_normal())),
                (ExperimentCase("t", "aware oracle", uplink, 0.8, seed), figures(100.0)),
                (ExperimentCase("t", "constant", uplink, 0.8, seed), figures(120.0 + rng.standard_normal())),
            ]
    finished += [(ExperimentCase("t", "none", 0, 0.8, seed), figures(100.0)) for seed in range(5)]
    rows = [row for row in account(finished) if row["policy"] == "aware predicted"]
    assert min(row["p"] for row in rows) < 0.05
    assert not any(claim["better"] for claim in claims(rows))
    verdicts = {(row["against"], row["verdict"]) for row in worth(finished)}
    assert verdicts == {("aware oracle", "no difference"), ("constant", "better")}


@pytest.mark.slow
def test_knowledge_prevents_the_collapse_on_a_real_trace() -> None:
    """A small part of what docs/coallocation.md shows, with the same figures."""
    file = TRACES / "KTH-SP2-1996-2.1-cln.swf.gz"
    if not file.exists():
        pytest.skip(f"no {file.name} in {TRACES} (JOBSIGHT_TRACES)")
    policies = ("naive", "aware predicted", "aware oracle")
    wanted = [ExperimentCase(file.name, policy, 100, 0.8, seed) for policy in policies for seed in range(4)]
    wanted += [ExperimentCase(file.name, "none", 0, 0.8, seed) for seed in range(4)]
    rows = {row["policy"]: row for row in account((case, run_case(case, file)) for case in wanted)}
    assert rows["naive"]["turnaround_percent"][0] > 50.0
    assert rows["aware predicted"]["turnaround_percent"][0] < 10.0
    assert rows["aware predicted"]["saturated"] < 0.12
    assert rows["aware oracle"]["turnaround_percent"][0] < -2.0
