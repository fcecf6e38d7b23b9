from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.recorded_accuracy import first_jobs
from tests.traces import trace

from jobsight_predictor.evaluation.backtest import run_backtest
from jobsight_predictor.evaluation.jobs import grouped
from jobsight_predictor.evaluation.replay import UNCLIPPED, replay_both, replay_forecaster
from jobsight_predictor.evaluation.scores import hindsight, summary
from jobsight_predictor.forecasters import FIVE
from jobsight_scheduler.workload.backtest_jobs import WINDOW_S, jobs_of_machines, jobs_of_trace
from jobsight_scheduler.workload.swf import TraceError, parse_swf, read_swf

LINES = [
    "; Version: 2.2",
    "2 50 10 100 4 80.5 2048 4 600 4096 1 7 1 3 2 1 -1 -1",
    "1 20 0 -1 2 -1 1024 -1 -1 -1 1 7 1 -1 0 1 -1 -1",
    "3 60 5 -30 2 10 512 2 60 -1 1 8 1 1 1 1 -1 -1",
    "4 70 5 30 2 15 -1 2 60 -1 1 8 1 1 1 1 -1 -1",
    "5 -1 5 30 2 15 100 2 60 -1 1 8 1 1 1 1 -1 -1",
    "rubbish",
]


def test_memory_jobs_of_a_trace_with_faults() -> None:
    jobs = jobs_of_trace(parse_swf(LINES), "memory", "t.swf")
    assert jobs.name == "t.swf"
    assert jobs.submitted.tolist() == [20.0, 50.0]
    assert jobs.ended.tolist() == [20.0, 160.0]
    assert jobs.values.tolist() == [1024 * 1024.0, 2048 * 1024.0]
    assert jobs.seconds.tolist() == [1.0, 100.0]
    assert np.isnan(jobs.requested[0])
    assert jobs.requested[1] == 4096 * 1024.0
    first, second = jobs.questions
    assert (first.user, first.application, first.processors, first.requested_time_s) == ("7", None, 2, None)
    assert (second.application, second.queue, second.processors) == ("3", "2", 4)
    assert (second.requested_memory_bytes, second.requested_time_s) == (4096 * 1024.0, 600.0)
    given = jobs.skipped
    assert given["ends before it starts"] == 1
    assert given["no memory value"] == 1
    assert given["submit time unknown"] == 1
    assert sum(given.values()) == 4  # and the line that is none


def test_cpu_and_runtime() -> None:
    trace = parse_swf(LINES)
    assert jobs_of_trace(trace, "runtime", "t").values.tolist() == [100.0, 30.0]
    assert jobs_of_trace(trace, "cpu", "t").values.tolist() == [0.805, 0.5]
    assert jobs_of_trace(trace, "runtime", "t").requested.tolist() == [600.0, 60.0]
    with pytest.raises(ValueError, match="no bandwidth"):
        jobs_of_trace(trace, "bandwidth", "t")


def test_numbers_beyond_reason_are_counted() -> None:
    lines = [
        "1 1e300 5 50 4 10 100 4 600 4096 1 1 1 3 2 1 -1 -1",
        "2 0 5 1e308 4 10 100 4 600 4096 1 1 1 3 2 1 -1 -1",
        "3 0 5 50 4 10 1e308 4 600 4096 1 1 1 3 2 1 -1 -1",
        "4 0 5 50 4 1e308 100 4 1e308 1e308 1 1 1 3 2 1 -1 -1",
    ]
    jobs = jobs_of_trace(parse_swf(lines), "memory", "t")
    assert jobs.skipped == {"times beyond 1e+12 s": 2, "no memory value": 1}
    assert len(jobs) == 1
    assert np.isnan(jobs.requested[0])
    assert jobs.questions[0].requested_memory_bytes is None
    assert "no cpu value" in jobs_of_trace(parse_swf(lines), "cpu", "t").skipped


def test_windows_of_machines(tmp_path: Path) -> None:
    file = tmp_path / "vms.csv.gz"
    with gzip.open(file, "wt") as stream:
        stream.write("vm,start,cores,bandwidth_bps,memory_bytes,cpu_percent\n")
        stream.write("b,21600,2,300,5,50\na,0,1,100,5,50\nb,0,2,nan,5,50\nb,0,x,1,5,50\nb,nan,2,1,5,50\n")
    jobs = jobs_of_machines(file, "bandwidth")
    assert [question.user for question in jobs.questions] == ["a", "b"]
    assert jobs.values.tolist() == [100.0, 150.0]
    assert (jobs.ended - jobs.submitted).tolist() == [WINDOW_S] * 2
    assert jobs.skipped == {"no bandwidth value": 1, "not numbers": 1, "start unknown": 1}
    assert jobs_of_machines(file, "cpu").values.tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="no runtime"):
        jobs_of_machines(file, "runtime")


def test_what_is_no_table_of_machines(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(TraceError, match="lacks the columns"):
        jobs_of_machines(file, "memory")
    file.write_text("vm,start,cores,bandwidth_bps,memory_bytes\n")
    with pytest.raises(TraceError, match="no window"):
        jobs_of_machines(file, "memory")


@pytest.mark.slow
def test_known_figures_of_lanl_cm5() -> None:
    """The figures measured before, by others, on the same trace and protocol; Jobsight on its first quarter."""
    name = "LANL-CM5-1994-4.1-cln.swf.gz"
    jobs = jobs_of_trace(read_swf(trace(name)), "memory", name)
    users = grouped([question.user for question in jobs.questions])
    said = {one: replay_forecaster(one, jobs, users, "completion") for one in FIVE}
    raw = replay_forecaster(UNCLIPPED, jobs, users, "completion")
    compared = ~np.isnan([*said.values(), raw]).any(axis=0)
    assert summary(said["locality"], jobs.values, users, compared)["micro"] == pytest.approx(0.746, abs=0.01)
    assert summary(said["history"], jobs.values, users, compared)["macro"] == pytest.approx(0.558, abs=0.01)
    assert summary(raw, jobs.values, users, compared)["macro"] == pytest.approx(0.681, abs=0.01)
    best = hindsight(list(said.values()), jobs.values, users, compared)
    assert best["micro"] == pytest.approx(0.748, abs=0.01)

    account = run_backtest(first_jobs(jobs, 30_000))
    five, ours = account["forecasters"], account["jobsight"]
    assert ours["micro"] >= 0.81
    assert ours["micro"] > account["hindsight"]["micro"] > max(five[name]["micro"] for name in ("history", "weighted"))
    assert 0.93 <= account["bounds"]["coverage"] <= 0.97
    assert all(account["bounds"]["maq"] > rival["maq"] for rival in account["baselines"].values())
    assert account["quality"]["auc"] >= 0.80
    assert 0.5 < account["pqm"]["auc"] < 0.57


def wasted_beside_the_cheapest(account: dict[str, Any]) -> float:
    """Waste of the bounds over that of the cheapest of three rules, each at its own failures."""
    wasted = [account["baselines"][name]["wasted"] for name in ("request", "maximum", "p90-x-1.15")]
    return float(account["bounds_compared"]["wasted"] / min(waste for waste in wasted if waste))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "locality", "ours"),
    [("METACENTRUM-2009-2.swf.gz", 0.574, 0.68), ("UniLu-Gaia-2014-2.swf.gz", 0.570, 0.67)],
)
def test_known_figures_of_other_traces(name: str, locality: float, ours: float) -> None:
    account = run_backtest(jobs_of_trace(read_swf(trace(name)), "memory", name))
    assert account["forecasters"]["locality"]["micro"] == pytest.approx(locality, abs=0.01)
    assert account["jobsight"]["micro"] >= ours
    assert account["jobsight"]["micro"] > account["hindsight"]["micro"]
    assert 0.93 <= account["bounds"]["coverage"] <= 0.97
    assert wasted_beside_the_cheapest(account) < 0.8


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "metric", "reserved"),
    [("METACENTRUM-2009-2.swf.gz", "memory", 0.7), ("KTH-SP2-1996-2.1-cln.swf.gz", "runtime", 0.98)],
)
def test_bounds_at_the_start_hold_the_chosen_share_for_less(name: str, metric: str, reserved: float) -> None:
    jobs = jobs_of_trace(read_swf(trace(name)), metric, name)
    first, again = replay_both(jobs)
    known = ~np.isnan(again.bounds)
    assert 0.93 <= (jobs.values <= again.bounds)[known].mean() <= 0.97
    held = [(said.bounds * jobs.seconds)[known].sum() for said in (first, again)]
    assert held[1] < reserved * held[0]
