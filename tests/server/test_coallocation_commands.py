"""``jobsight coallocate`` and ``jobsight experiment``: figures, files, interruptions, what is refused."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobsight_scheduler.workload.lublin import lublin
from jobsight_scheduler.workload.swf import write_swf
from jobsight_server.cli import main
from jobsight_server.systems.simulations.commands import coallocate, simulate


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "t.swf.gz"
    write_swf(lublin(1500, 64, seed=1), file)
    return file


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main([*map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("placement", ["none", "naive", "aware", "reactive"])
def test_placements_on_clusters(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], placement: str
) -> None:
    out = tmp_path / "schedule.csv"
    options = ["--clusters", "4x32", "--uplink", "20M", "--placement", placement, "--load", "0.8", "--validate"]
    found = told(capsys, "coallocate", trace, *options, "--schedule-out", out)
    assert found["broken_rules"] == 0
    assert found["processors"] == 128
    assert (found["dropped"], found["jobs"]) == (0, 1500)  # those of more than 32 are spread in any case
    wide = told(capsys, "coallocate", trace, *options[:5], "none", *options[6:])["spread"]
    assert 0.0 < wide == found["spread"] if placement == "none" else wide < found["spread"]
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == found["jobs"]
    last = max(float(row["submit_s"]) for row in rows)
    ended = sum(float(row["end_s"]) <= last for row in rows)
    assert found["jobs_per_hour"] == pytest.approx(3600.0 * ended / last)
    waits = [float(row["start_s"]) - float(row["submit_s"]) for row in rows]
    assert sum(waits) / len(waits) == pytest.approx(found["mean_wait_s"])


def test_placements_for_people(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--clusters", "32,16,16", "--placement", "naive", "--sharing", "max-min", "--uplink", "0.05G"]
    assert main(["coallocate", str(trace), *options, "--plot", str(tmp_path / "plots")]) == 0
    shown = capsys.readouterr().out
    assert "naive on 64 processors" in shown
    assert "links saturated" in shown
    assert max(map(len, shown.splitlines())) <= 120
    assert "</svg>" in (tmp_path / "plots" / "links.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--uplink", "0"], "the uplink of cluster 0 carries 0.0 bit/s"),
        (["--theta", "0"], "--theta 0.0: no link could be booked"),
        (["--bias", "-1"], "bias -1.0, noise 0.0: give a bias above 0"),
        (["--silent", "2"], "a share of users who state nothing of 2.0"),
        (["--wrong-names", "nan"], "shares of jobs with wrong, missing and unique names of nan, 0, 0"),
        (["--job-spread", "1e30"], "--job-spread 1e+30: give it from 0 to 10"),
        (["--application-spread", "-1"], "--application-spread -1.0: give it from 0 to 10"),
        (["--half", "0"], "--half 0: every job would communicate all the time"),
        (["--uplink", "1G,1G,1G"], "--uplink has 3 rates for 2 clusters: give one, or one for each"),
        (["--load", "inf"], "a load of inf cannot be offered"),
        (["--load", "-1"], "a load of -1.0 cannot be offered"),
        (["--clusters", "1x1"], "none of its"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    file = tmp_path / "t.swf"
    file.write_text("\n".join(f"{i} {i * 9} -1 50 4 -1 -1 4 60 -1 1 1 -1 -1 -1 -1 -1 -1" for i in range(1, 9)))
    assert main(["coallocate", str(file), "--clusters", "2x4", *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        ["--clusters", "4by32"],
        ["--clusters", "0x4"],
        ["--clusters", "999999999x32"],
        ["--clusters", "999999999999999999999x1"],
        ["--clusters", "2x999999999"],
        ["--clusters", "9000000,9000000"],
        ["--uplink", "fast"],
        ["--half", "often"],
    ],
)
def test_bad_words_are_named(trace: Path, capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["coallocate", str(trace), *option])
    assert repr(option[1]) in capsys.readouterr().err


def test_each_command_has_its_own_options(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def options(module: ModuleType) -> set[str]:
        parser = argparse.ArgumentParser(add_help=False)
        module.add_arguments(parser)
        return {option for option in parser.format_help().split() if re.fullmatch("--[a-z-]+", option)}

    assert set(simulate.OF_SEVERAL_CLUSTERS) == options(coallocate) - options(simulate)
    for option in simulate.OF_SEVERAL_CLUSTERS:
        for given in ([option], [option, "1"], [f"{option}=1"]):
            with pytest.raises(SystemExit, match="2"):
                main(["simulate", str(trace), *given])
            expected = f"{option} is an option of `jobsight coallocate`, which simulates several clusters"
            assert expected in capsys.readouterr().err
    for option, value in (("--policy", "fcfs"), ("--processors", "64"), ("--predictor", "jobsight")):
        with pytest.raises(SystemExit, match="2"):
            main(["coallocate", str(trace), "--clusters", "2x4", option, value])
        assert f"unrecognized arguments: {option} {value}" in capsys.readouterr().err


SMALL = ["--jobs", "80", "--scenarios", "100 Mb/s", "--seeds", "2", "--policies"]
SMALL += ["naive", "constant 20", "constant 40", "aware user", "aware means", "aware oracle"]


def test_the_experiment_is_not_run_twice(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, plots = tmp_path / "runs.jsonl", tmp_path / "plots"
    arguments = ["experiment", "coallocation", "--traces", trace, *SMALL, "--out", out]
    first = told(capsys, *arguments, "--workers", 2, "--plot", plots)
    assert first["runs"] == 14
    assert [row["policy"] for row in first["rows"]][:3] == ["none", "naive", "constant 20"]
    assert [row["against"] for row in first["worth"]] == ["best constant", "aware user", "aware oracle"]
    lines = out.read_text().splitlines()
    assert len(lines) == 14
    assert "</svg>" in (plots / "turnaround.svg").read_text()
    pictures = (plots / "turnaround.svg").read_bytes()
    # The last line is cut off, as by a power cut: that run alone is done again, to the same figures.
    out.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    again = told(capsys, *arguments, "--workers", 1, "--plot", plots)
    assert again["rows"] == first["rows"]
    assert len(out.read_text().splitlines()) == 15
    assert (plots / "turnaround.svg").read_bytes() == pictures
    assert main(list(map(str, arguments))) == 0
    shown = capsys.readouterr()
    assert "1 broken lines" in shown.err
    assert "14 runs of the first 80 jobs" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert len(out.read_text().splitlines()) == 15


def test_an_interrupted_experiment_goes_on(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "jobsight_server.cli", "experiment", "coallocation", "--traces", str(trace)]
    command += ["--jobs", "150", "--scenarios", "100 Mb/s", "300 Mb/s", "--seeds", "2"]
    command += ["--out", str(out), "--workers", "1", "--json"]
    root = Path(__file__).parents[2]
    wings = os.pathsep.join(str(root / wing) for wing in ("agent", "predictor", "scheduler", "server"))
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
        assert main(["experiment", "coallocation", "--traces", str(trace), *options]) == 1
        assert message in capsys.readouterr().err
    assert main(["experiment", "coallocation", "--traces", str(tmp_path / "none.swf")]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().err
    monkeypatch.delenv("JOBSIGHT_TRACES", raising=False)
    assert main(["experiment", "coallocation"]) == 1
    assert "give --traces FILE" in capsys.readouterr().err


def test_without_dask_it_says_what_to_install(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    options = [*SMALL, "--out", str(tmp_path / "runs"), "--dask", "tcp://127.0.0.1:1"]
    assert main(["experiment", "coallocation", "--traces", str(trace), *options]) == 1
    assert "pip install 'jobsight[dask]'" in capsys.readouterr().err


def test_on_a_dask_cluster(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (jobsight[dask])")
    arguments = ["experiment", "coallocation", "--traces", trace, *SMALL]
    here = told(capsys, *arguments, "--workers", 1, "--out", tmp_path / "here")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        there = told(capsys, *arguments, "--dask", cluster.scheduler_address, "--out", tmp_path / "there")
    assert there["rows"] == here["rows"]
