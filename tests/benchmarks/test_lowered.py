"""Shares of lowered requests and raised limits by hand, and the decision in a replay."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import DAY_S, Users, amounts, limit_cells, memory_cells, rows
from sizing.ours import Decided
from sizing.protocols import protocol_b
from sizing.tasks import Task

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.question import Question


def made(values: list[float], requested: list[float], *, metric: str = "memory", gap_s: float = 1000.0) -> Jobs:
    """Make jobs of one application that follow each other and run for 100 s."""
    begin = gap_s * np.arange(len(values))
    question = Question("ann", "cfd", "batch", 2)
    arrays = (begin, begin + 100.0, np.array(values), np.full(len(values), 100.0), np.array(requested))
    return Jobs("made", metric, [question] * len(values), *arrays)


def test_a_job_whose_lowered_memory_does_not_hold_gets_its_request_as_well() -> None:
    jobs = made([2.0, 6.0, 2.0, 2.0], [8.0, 8.0, 8.0, 8.0], gap_s=20 * DAY_S)
    amount = np.array([4.0, 4.0, np.nan, 10.0])
    cells = memory_cells(jobs, jobs.requested > 0.0, amount, Users(["ann"] * 4), has_requests=True)
    # 4, 4 + 8, 8 and 8 are reserved where 2, 6, 2 and 2 are used; the first two jobs are of the first 30 days.
    assert cells == ["0.500", "0.500 of 2", f"{(2 + 6 + 6 + 6) / 12:.3f}", f"{20 / 12:.3f}", "0.0%", "0.0%"]


def test_a_longer_limit_is_needed_by_jobs_beyond_their_own() -> None:
    jobs = made([500.0, 1300.0, 400.0, 900.0], [1000.0] * 4, metric="runtime")
    amount = np.array([600.0, 2000.0, 1500.0, np.nan])
    cells = limit_cells(jobs, jobs.requested > 0.0, amount, Users(["ann"] * 4), has_requests=True)
    assert cells == ["0.250", "1.000 of 1", "0.500", "0.500 of 2", f"{1500 / 4000:.1%}"]


def test_intervals_are_those_of_users() -> None:
    names: list[str | None] = [f"u{k // 10}" for k in range(80)]
    whole = np.ones(80)
    assert Users(names).ratio(np.tile([1.0] + [0.0] * 9, 8), whole) == "0.100 (0.100 to 0.100)"
    value, low, high = (
        float(text)
        for text in Users(names)
        .ratio(np.repeat([0.0, 1.0], 40), whole, ".2f")
        .replace("(", "")
        .replace(")", "")
        .replace("to ", "")
        .split()
    )
    # Wider than the share of 8 users drawn from 4 and 4, 5 % and 95 % of which are .25 and .75; Student's t: .14, .86.
    assert (value, low + high) == (0.5, 1.0)
    assert 0.14 <= low < 0.25


@pytest.mark.parametrize(("metric", "used", "requested"), [("memory", 1e9, 16e9), ("runtime", 600.0, 86400.0)])
def test_a_replay_recommends_by_what_has_ended(metric: str, used: float, requested: float) -> None:
    jobs = made([used] * 30, [requested] * 30, metric=metric)
    decided, _, largest = amounts(jobs, "memory" if metric == "memory" else "runtime")
    assert np.isnan(decided[0])
    assert np.isnan(largest[:5]).all()
    assert largest[5:] == pytest.approx(1.2 * used, rel=0.05)
    if metric == "memory":
        assert used <= decided[-1] < requested / 4


def test_each_trace_has_a_line_for_each_rule_and_for_the_last_release() -> None:
    found = [line.split(" | ") for line in rows("eager memory", made([1e9] * 20, [16e9] * 20), "memory")]
    assert [cells[1] for cells in found] == ["Jobsight", "forecast alone", "largest x 1.2", "release 0.3, all jobs"]
    assert found[3][3] == "0.956 of 986"


def test_a_task_gets_its_preset_after_a_kill_by_less() -> None:
    tasks = [Task("align", 1e4 * k, 1e4 * k + 3600.0, 3600.0, 16e9, 1e9, 1e9, 1.0, "") for k in range(12)]
    tasks.append(tasks[-1]._replace(submitted=2e5, ended=2e5 + 3600.0, rss=12e9, peak_rss=12e9))
    found = protocol_b(tasks, Decided())
    presets = 12 * 15 + 4
    assert found.failures == 1
    assert found.gbh < presets


def test_a_task_whose_preset_is_too_small_gets_more_until_it_succeeds() -> None:
    task = Task("align", 0.0, 3600.0, 3600.0, 2e9, 9e9, 9e9, 1.0, "")
    found = protocol_b([task], Decided())
    assert 1 <= found.failures <= 3
    assert found.gbh > 2.0
