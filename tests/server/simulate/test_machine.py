"""``jobsight simulate`` from files to figures, schedules and plots, and its messages on bad input."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, insert
from tests import make
from tests.make import output_of

from jobsight_scheduler.workload.swf import FIELDS
from jobsight_server.cli import main
from jobsight_server.queries.site_trace import site_trace
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
def simulate(capsys: pytest.CaptureFixture[str]) -> Command:
    return partial(make.json_of, main, capsys, "simulate")


def test_figures_of_a_schedule_worked_out_by_hand(trace: Path, simulate: Command, tmp_path: Path) -> None:
    out = tmp_path / "schedule.csv"
    found = simulate(trace, "--policy", "easy", "--validate", "--schedule-out", out)
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
    assert found["broken_rules"] == 0
    assert found["by_user"]["b%1B[31m"]["mean_wait_s"] == 40
    assert found["by_size"]["2-4"]["jobs"] == 2


def test_terminal_and_pictures(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = output_of(main, capsys, "simulate", trace, "--plot", str(tmp_path / "new" / "plots"), "--against", "easy++")
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "bad\33.swf"
    file.write_text(content)
    shown = output_of(main, capsys, "simulate", file, *arguments, status=1)
    assert message in shown
    assert "\33" not in shown


def test_the_finished_jobs_of_a_site(
    engine: Engine, database_url: str, simulate: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Worked out by hand: 1 and 2 ran side by side, so the machine has 6; 3 was submitted first and waited.

    The record begins at 200, before which all were submitted: then they all count.
    """
    rows = [
        {"job_id": "1", "submitted": 100.0, "start": 100.0, "end": 200.0, "processors": 4, "user": "<b> [red]"},
        {"job_id": "2", "submitted": 110.5, "start": 120.5, "end": 200.0, "processors": 2, "user": "u"},
        {"job_id": "3", "submitted": 90.0, "start": 200.0, "end": 230.0, "processors": 6, "user": "u"},
        {"job_id": "4", "submitted": 90.0, "start": 200.0, "end": None, "processors": 6, "user": "u"},
        {"job_id": "5", "submitted": None, "start": 300.0, "end": 310.0, "processors": None, "user": "u"},
    ]
    given = {"cluster": "c", "recorded_at": 0.0, "profiled": False, "name": "cfd_1", "queue": "q"}
    given |= {"requested_memory_bytes": 3 * 2**20, "requested_walltime_s": 150.0}
    with engine.begin() as connection:
        for row in rows:
            state = "running" if row["end"] is None else "ended"
            connection.execute(insert(schema.jobs).values(given | row | {"state": state}))
        found = site_trace(connection, Part("c"))
    assumed = "MaxProcs: 6", "Note: MaxProcs is assumed; 6 were in use at most"
    assert found.header == ["UnixStartTime: 90", *assumed, "UserName 1: u", "UserName 2: %3Cb%3E%20%5Bred%5D"]
    assert np.stack([found[field] for field in FIELDS], axis=1).tolist() == [
        [1, 0, 110, 30, 6, -1, -1, 6, 150, 512, 1, 1, -1, 1, 1, 1, -1, -1],
        [2, 10, 0, 100, 4, -1, -1, 4, 150, 768, 1, 2, -1, 1, 1, 1, -1, -1],
        [3, 20.5, 10, 79.5, 2, -1, -1, 2, 150, 1536, 1, 1, -1, 1, 1, 1, -1, -1],
    ]
    for cluster in ((), ("--cluster", "c")):
        figures = simulate(database_url, *cluster, "--policy", "fcfs", "--validate")
        # 6 processors: job 1 from 0 to 30, then 2 and 3 side by side.
        assert (figures["trace"], figures["processors"], figures["broken_rules"]) == ("finished jobs of c", 6, 0)
        assert figures["mean_wait_s"] == pytest.approx((0 + 20 + 9.5) / 3)
        assert {user: of_user["jobs"] for user, of_user in figures["by_user"].items()} == {"u": 2, "<b> [red]": 1}
    assert main(["export", "jobs", str(tmp_path / "c.swf"), "--cluster", "c", "--database", database_url]) == 0
    capsys.readouterr()
    written = simulate(tmp_path / "c.swf", "--policy", "fcfs")
    assert all(written[name] == figures[name] for name in ("by_user", "by_size", "makespan_s"))
    late = ("--since", "1970-01-01T00:03:21Z")
    words = output_of(main, capsys, "simulate", database_url, "--policy", "fcfs", *late, status=1)
    assert "no finished job was submitted in this time; give an earlier --since" in words
    assert main(["simulate", str(tmp_path / "c.swf"), "--since", "2026-11-01"]) == 1
    assert "c.swf is not a Jobsight database, so it has no clusters and no dates" in capsys.readouterr().err
    assert main(["simulate", database_url, "--policy", "fcfs"]) == 0
    assert re.search(r"^ <b> \[red\] +1 ", capsys.readouterr().out, re.MULTILINE)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory that has the policies of the example."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    shutil.copy(EXAMPLES / "own_policy.py", tmp_path / f"{name}.py")
    (tmp_path / f"{name}_broken.py").write_text("1 / 0")
    (tmp_path / f"{name}_needy.py").write_text("import no_such_module_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    return name


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("lifo", (), "--policy lifo: unknown policy; choose from fcfs, sjf, easy, easy++, conservative, multifactor"),
        ("no_such_module_at_all:X", (), "no module 'no_such_module_at_all' in "),
        ("OWN_broken:X", (), "failed: ZeroDivisionError: division by zero"),
        ("OWN_needy:X", (), "OWN_needy needs 'no_such_module_at_all', which is not installed"),
        ("OWN:Nothing", (), "OWN has no Nothing; its classes are EasyByKey, Wfp3, F1"),
        ("OWN:F1", ("--predictor", "last-two"), "takes no predictor"),
        ("multifactor", ("--priority", "age"), "give weights such as age=1000"),
        ("easy", ("--priority", "age=1", "--against", "fcfs"), "--priority: easy has no priority weights"),
    ],
)
def test_policies_that_cannot_be_used(
    trace: Path, own: str, capsys: pytest.CaptureFixture[str], policy: str, options: tuple[str, ...], message: str
) -> None:
    here = [word.replace("OWN", own) for word in (policy, *options)]
    shown = output_of(main, capsys, "simulate", trace, "--policy", *here, status=1)
    assert message.replace("OWN", own) in shown
    assert "Traceback" not in shown


def test_installed_policies(
    trace: Path, own: str, simulate: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entry points of real distributions, as pip leaves them."""
    site = tmp_path / "site"
    for number, points in enumerate((f"mine = {own}:Wfp3\neasy = {own}:F1\ntwice = {own}:Wfp3", f"twice = {own}:F1")):
        folder = site / f"extra{number}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: extra{number}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[jobsight.policies]\n{points}\n")
    sys.path.append(str(site))
    mine = simulate(trace, "--policy", "mine", "--validate")
    assert (mine["policy"], mine["broken_rules"]) == ("mine", 0)
    assert mine["mean_wait_s"] == simulate(trace, "--policy", f"{own}:Wfp3")["mean_wait_s"]
    assert simulate(trace, "--policy", "easy")["max_wait_s"] == 40.0  # what ships is not replaced
    assert main(["simulate", str(trace), "--policy", "twice"]) == 1
    assert f"several packages install it ({own}:F1, {own}:Wfp3); give one" in capsys.readouterr().err
    assert main(["simulate", str(trace), "--policy", "nobody"]) == 1
    assert "multifactor, mine, twice, or give module:Class of your own" in capsys.readouterr().err


def test_the_example_runs_as_it_is_documented(trace: Path) -> None:
    """In a process of its own, from its directory."""
    command = [sys.executable, "-m", "jobsight_server.cli", "simulate", str(trace), "--policy", "own_policy:Wfp3"]
    command += ["--against", "easy", "own_policy:F1", "--validate", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["policy"], found["broken_rules"]) == ("own_policy:Wfp3", 0)
    assert list(found["against"]) == ["easy", "own_policy:F1"]


def test_the_same_seed_makes_the_same_jobs_and_the_file_has_them(tmp_path: Path, simulate: Command) -> None:
    file = tmp_path / "made.swf.gz"
    made = ["--synthetic", "lublin", "--jobs", 400, "--processors", 64]
    first = simulate(*made, "--workload-out", file, "--validate")
    assert (first["jobs"], first["processors"], first["broken_rules"]) == (400, 64, 0)
    again, other = simulate(*made), simulate(*made, "--workload-seed", 7)
    read = simulate(file)
    for figure in ("mean_wait_s", "makespan_s", "useful_utilisation"):
        assert first[figure] == again[figure] == read[figure]
        assert first[figure] != other[figure]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give a trace of the Standard Workload Format, a database, or --synthetic lublin"),
        (["--synthetic", "lublin"], "give its --processors, such as 128"),
        (["--synthetic", "lublin", "--processors", "64", "a.swf"], "a trace was given; leave it out"),
        (["--synthetic", "lublin", "--processors", "64", "--workload-out", "none/b.swf"], "--workload-out none/b.swf"),
    ],
)
def test_what_cannot_be_made_is_explained(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in output_of(main, capsys, "simulate", *arguments, status=1)
