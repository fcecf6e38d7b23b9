"""``python -m jobsight_papers coallocation``: files, interruptions, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import make

from jobsight_papers.__main__ import main

SMALL = ["--jobs", "80", "--scenarios", "100 Mb/s", "--seeds", "2", "--policies"]
SMALL += ["naive", "constant 20", "constant 40", "aware user", "aware means", "aware oracle"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make.trace(tmp_path / "t.swf.gz")


@pytest.mark.exhaustive
def test_the_experiment_is_not_run_twice(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, plots = tmp_path / "runs.jsonl", tmp_path / "plots"
    arguments = ["coallocation", "--traces", trace, *SMALL, "--out", out]
    first = make.json_of(main, capsys, *arguments, "--workers", 2, "--plot", plots)
    assert first["runs"] == 14
    assert [row["policy"] for row in first["rows"]][:3] == ["none", "naive", "constant 20"]
    assert [row["against"] for row in first["worth"]] == ["best constant", "aware user", "aware oracle"]
    lines = out.read_text().splitlines()
    assert len(lines) == 14
    assert "</svg>" in (plots / "turnaround.svg").read_text()
    pictures = (plots / "turnaround.svg").read_bytes()
    # The last line is cut off, as by a power cut: that run alone is done again, to the same figures.
    out.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    again = make.json_of(main, capsys, *arguments, "--workers", 1, "--plot", plots)
    assert again["rows"] == first["rows"]
    assert len(out.read_text().splitlines()) == 15
    assert (plots / "turnaround.svg").read_bytes() == pictures
    assert main(list(map(str, arguments))) == 0
    shown = capsys.readouterr()
    assert "1 broken lines" in shown.err
    assert "14 runs of the first 80 jobs" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert len(out.read_text().splitlines()) == 15


@pytest.mark.exhaustive
def test_an_interrupted_experiment_goes_on(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "jobsight_papers", "coallocation", "--traces", str(trace)]
    command += ["--jobs", "150", "--scenarios", "100 Mb/s", "300 Mb/s", "--seeds", "2"]
    command += ["--out", str(out), "--workers", "1", "--json"]
    root = Path(__file__).parents[2]
    wings = os.pathsep.join(str(root / wing) for wing in ("agent", "predictor", "scheduler", "server", "papers"))
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": wings},
        start_new_session=True,
    )
    while not (out.exists() and out.stat().st_size) and running.poll() is None:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
    shown, errors = running.communicate()
    assert (running.returncode, shown) == (130, "")
    assert "runs finished; the same command resumes from" in errors
    assert "Traceback" not in errors
    kept = out.read_text()
    assert kept.endswith("\n")
    done = len(kept.splitlines())
    assert 0 < done < 44
    assert main([*command[3:-3], "--workers", "2"]) == 0
    lines = out.read_text().splitlines()
    assert len(lines) == 44
    assert len({json.dumps(json.loads(line)["key"]) for line in lines}) == 44


def test_what_the_experiment_refuses(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("not a run\n")
    for options, message in (
        (["--seeds", "0"], "--seeds 0: give numbers above 0"),
        (["--out", str(tmp_path / "no" / "where")], "there is no directory"),
        (["--out", str(rubbish)], "none of its 1 lines is a run"),
        (["--plot", str(trace)], "is a file; name a directory"),
    ):
        assert main(["coallocation", "--traces", str(trace), *options]) == 1
        assert message in capsys.readouterr().err
    assert main(["coallocation", "--traces", str(tmp_path / "none.swf")]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().err
    monkeypatch.delenv("JOBSIGHT_TRACES", raising=False)
    assert main(["coallocation"]) == 1
    assert "give --traces FILE" in capsys.readouterr().err


def test_without_dask_it_says_what_to_install(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    options = [*SMALL, "--out", str(tmp_path / "runs"), "--dask", "tcp://127.0.0.1:1"]
    assert main(["coallocation", "--traces", str(trace), *options]) == 1
    assert "pip install distributed" in capsys.readouterr().err


def test_on_a_dask_cluster(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (group papers)")
    arguments = ["coallocation", "--traces", trace, *SMALL]
    here = make.json_of(main, capsys, *arguments, "--workers", 1, "--out", tmp_path / "here")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        there = make.json_of(main, capsys, *arguments, "--dask", cluster.scheduler_address, "--out", tmp_path / "there")
    assert there["rows"] == here["rows"]
