"""``jobsight simulate`` from files to figures, schedules and plots, and its messages on bad input."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, insert
from tests.make import Jobsight

from jobsight_scheduler.workload.swf import FIELDS, PARTIAL
from jobsight_server.replay.machines import site_machines
from jobsight_server.replay.trace import site_trace
from jobsight_server.storage import schema
from jobsight_server.storage.clusters import Part

EXAMPLES = Path(__file__).parents[3] / "examples"


def swf(job: int, submit: float, run: float, processors: int, requested: float = -1, user: int = 1) -> str:
    return f"{job} {submit} -1 {run} {processors} -1 -1 {processors} {requested} -1 1 {user} -1 -1 -1 -1 -1 -1"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four processors: 1 holds all, 2 waits for it, 3 is backfilled beside it where that is allowed."""
    file = tmp_path / "t.swf"
    rows = [
        "; MaxProcs: 4",
        "; UserName 2: b%1B[31m",
        swf(1, 100, 50, 3, 60),
        swf(3, 120, 20, 1, 25),
        swf(2, 110, 30, 4, 30, user=2),
        swf(4, 130, 0, 1),
        swf(5, 131, 99, 1, 9),
        swf(6, 90, 7, 5),
    ]
    file.write_text("\n".join(rows))
    return file


Command = Callable[..., dict[str, Any]]


@pytest.fixture
def simulate(jobsight: Jobsight) -> Command:
    return lambda *arguments: jobsight("simulate", *arguments, "--json").json


def test_figures_of_a_schedule_worked_out_by_hand(trace: Path, simulate: Command, tmp_path: Path) -> None:
    out = tmp_path / "schedule.csv"
    found = simulate(trace, "--policy", "easy", "--schedule-out", out)
    assert (found["jobs"], found["dropped"], found["clamped"]) == (4, 2, 1)
    # Job 1 at 0 until 50 (60 at most), 3 at 20 until 40, 4 of 9 s at 31 would be over at 40, but does not fit.
    assert out.read_text().splitlines() == [
        "job,submit_s,start_s,end_s,processors",
        "1,0,0,50,3",
        "2,10,50,80,4",
        "3,20,20,40,1",
        "4,31,40,49,1",
    ]
    assert found["mean_wait_s"] == pytest.approx((40 + 9) / 4)
    assert found["max_wait_s"] == 40
    assert found["mean_bounded_slowdown"] == pytest.approx((1 + 70 / 30 + 1 + 18 / 10) / 4)
    assert found["makespan_s"] == 80
    assert found["useful_utilisation"] == pytest.approx((150 + 120 + 20 + 9) / (4 * 80))
    assert found["by_user"]["b%1B[31m"]["mean_wait_s"] == 40
    assert found["by_size"]["2-4"]["jobs"] == 2


def test_terminal_and_pictures(trace: Path, tmp_path: Path, jobsight: Jobsight) -> None:
    shown = jobsight("simulate", trace, "--plot", str(tmp_path / "new" / "plots")).out
    assert "4 jobs; 2 dropped, 1 cut at their estimate, 1 out of order." in shown
    # By hand as above: 49 s of wait for four jobs, slowdowns 1, 70/30, 1 and 18/10 (12.25 and 1.53).
    assert "Mean wait 12 s, mean bounded slowdown 1.5." in shown
    assert max(map(len, shown.splitlines())) <= 80
    for name in ("utilisation", "queue", "gantt", "slowdown"):
        assert "</svg>" in (tmp_path / "new" / "plots" / f"{name}.svg").read_text()


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", (), "no job of 18 numbers in a line was found: no lines; give a trace in the Standard"),
        ("a \33[1m", (), r"1 x not numbers: left out (first: line 1: 'a \x1b[1m'); give a trace in the Standard"),
        (swf(1, 0, 10, 1), (), "has no MaxProcs in its header: give --processors"),
        (swf(1, 0, 10, 8), ("--processors", "4"), "none of its 1 jobs can run"),
        (swf(1, 0, 10, 1), ("--processors", "0"), "a machine of 0 processors runs nothing; give at least 1"),
        (swf(1, 0, 9, 1) + "\n" + swf(2, 5, 9, 1), ("--processors", "4", "--load", "-1"), "a load of -1.0 cannot"),
        (swf(1, 0, 10, 1), ("--processors", "4", "--predictor", "locality"), "easy uses requested times"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, jobsight: Jobsight, content: str, arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "bad\33.swf"
    file.write_text(content)
    shown = jobsight("simulate", file, *arguments, status=1).err
    assert message in shown
    assert "\33" not in shown


def test_the_finished_jobs_of_a_site(
    engine: Engine, database_url: str, simulate: Command, jobsight: Jobsight, tmp_path: Path
) -> None:
    """Worked out by hand: 1 and 2 ran side by side, so the machine has 6; 3 was submitted first and waited.

    The record begins at 200, before which all were submitted: then they all count, but for 4, which still runs at its
    end.
    """
    rows = [
        {"job_id": "1", "submitted": 100.0, "start": 100.0, "end": 200.0, "processors": 4, "user": "<b> [red]"},
        {"job_id": "2", "submitted": 110.5, "start": 120.5, "end": 200.0, "processors": 2, "user": "u"},
        {"job_id": "3", "submitted": 90.0, "start": 200.0, "end": 230.0, "processors": 6, "user": "u"},
        {"job_id": "4", "submitted": 90.0, "start": 240.0, "end": None, "processors": 6, "user": "u"},
        {"job_id": "5", "submitted": None, "start": 300.0, "end": 310.0, "processors": None, "user": "u"},
    ]
    given = {"cluster": "c", "recorded_at": 0.0, "profiled": False, "name": "cfd_1", "queue": "q"}
    given |= {"requested_memory_bytes": 3 * 2**20, "requested_walltime_s": 150.0}
    with engine.begin() as connection:
        for row in rows:
            state = "running" if row["end"] is None else "ended"
            connection.execute(insert(schema.jobs).values(given | row | {"state": state}))
        found = site_trace(connection, Part("c"), site_machines(connection, Part("c")))
    assumed = "MaxProcs: 6", "Note: MaxProcs is assumed; 6 were in use at most", "CountedFrom: 0"
    assert found.header == ["UnixStartTime: 90", *assumed, "UserName 1: %3Cb%3E%20%5Bred%5D", "UserName 2: u"]
    assert np.stack([found[field] for field in FIELDS], axis=1).tolist() == [
        [1, 0, 110, 30, 6, -1, -1, 6, 150, 512, 1, 2, -1, 1, 1, 1, -1, -1],
        [2, 0, 150, 70, 6, -1, -1, 6, 150, 512, PARTIAL, 2, -1, 1, 1, 1, -1, -1],
        [3, 10, 0, 100, 4, -1, -1, 4, 150, 768, 1, 1, -1, 1, 1, 1, -1, -1],
        [4, 20.5, 10, 79.5, 2, -1, -1, 2, 150, 1536, 1, 2, -1, 1, 1, 1, -1, -1],
    ]
    for cluster in ((), ("--cluster", "c")):
        figures = simulate(database_url, *cluster, "--policy", "easy")
        # 6 processors: job 3 from 0 to 30, 4 to 100, then 1 and 2 side by side.
        assert (figures["trace"], figures["processors"]) == ("finished jobs of c", 6)
        assert figures["mean_wait_s"] == pytest.approx((0 + 90 + 79.5) / 3)
        assert {user: of_user["jobs"] for user, of_user in figures["by_user"].items()} == {"u": 2, "<b> [red]": 1}
    jobsight("export", "jobs", str(tmp_path / "c.swf"), "--cluster", "c", on=database_url)
    written = simulate(tmp_path / "c.swf", "--policy", "easy")
    assert all(written[name] == figures[name] for name in ("by_user", "by_size", "makespan_s", "assumed"))
    late = ("--since", "1970-01-01T00:03:21Z")
    words = jobsight("simulate", database_url, "--policy", "easy", *late, status=1).err
    assert "no finished job was submitted in this time; give an earlier --since" in words
    said = jobsight("simulate", str(tmp_path / "c.swf"), "--since", "2026-11-01", status=1).err
    assert "c.swf is not a Jobsight database, so it has no clusters and no dates" in said
    assert re.search(r"^ <b> \[red\] +1 ", jobsight("simulate", database_url, "--policy", "easy").out, re.MULTILINE)
