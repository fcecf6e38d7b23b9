"""`jobsight job-groups search` on a workload whose answer is known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from jobsight_predictor.question import parse_job_group
from jobsight_server import cli


def workload(tmp_path: Path, n: int) -> str:
    """Memory depends on the number of processors and nothing else; users and applications are noise."""
    rng = np.random.default_rng(3)
    lines = []
    for i in range(n):
        processors, user, application = int(rng.integers(1, 9)), int(rng.integers(0, 6)), int(rng.integers(0, 6))
        memory = 1000 * 2**processors
        lines.append(
            f"{i} {100 * i} 0 50 {processors} 1 {memory} {processors} 60 -1 1 {user} 1 {application} 1 1 -1 -1"
        )
    file = tmp_path / "t.swf"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def test_the_field_that_tells_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = workload(tmp_path, 400)
    assert cli.main(["job-groups", "search", trace, "--metric", "memory", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert "processors" in given["job_groups"]
    assert {"user", "site"} <= set(given["job_groups"])
    assert (given["searched"]["jobs"], given["held_back"]["jobs"]) == (280, 120)
    assert given["searched"]["found"] >= given["searched"]["default"]
    assert given["held_back"]["found"] > 0.9
    assert not given["interrupted"]


def test_the_settings_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Walltime and processors tell the memory, whoever asks; no level of the default is these two alone.
    rng = np.random.default_rng(3)
    lines = []
    for i in range(200):
        processors, hours, user = (int(rng.integers(1, end)) for end in (9, 9, 7))
        memory = 1000 * 2**hours * processors
        lines.append(
            f"{i} {100 * i} 0 50 {processors} 1 {memory} {processors} {3600 * hours} -1 1 {user} 1 {user} 1 1 -1 -1"
        )
    file = tmp_path / "t.swf"
    file.write_text("\n".join(lines) + "\n")
    trace = str(file)
    assert cli.main(["job-groups", "search", trace, "--metric", "memory", "--jobs", "100"]) == 0
    pasted = tomllib.loads(capsys.readouterr().out)
    assert set(pasted) == {"job_groups"}
    job_groups = [parse_job_group(text) for text in pasted["job_groups"]]
    assert () in job_groups
    assert cli.main(["backtest", trace, "--metric", "memory", "--json", "--job-groups", *pasted["job_groups"]]) == 0
    assert json.loads(capsys.readouterr().out)["jobsight"]["share"] > 0.9


def test_what_is_no_better_than_the_default_changes_nothing_when_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "alike.swf"
    file.write_text("".join(f"{i} {100 * i} 0 50 1 1 1000 1 60 -1 1 1 1 1 1 1 -1 -1\n" for i in range(40)))
    assert cli.main(["job-groups", "search", str(file), "--metric", "memory"]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed) == {}
    assert "The default did as well" in printed
    assert "# job_groups = [" in printed


def test_too_few_jobs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["job-groups", "search", workload(tmp_path, 5), "--metric", "memory"]) == 1
    assert "too few" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_interrupted_it_gives_the_best_so_far(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobsight_server.cli", "job-groups", "search", workload(tmp_path, 8000)]
    process = subprocess.Popen(
        [*command, "--metric", "memory", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": "100"},
    )
    assert process.stderr is not None
    shown = b""
    while b"3 tried" not in shown:
        read = os.read(process.stderr.fileno(), 4096)
        assert read, shown.decode()
        shown += read
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    given = json.loads(out)
    assert given["interrupted"]
    assert "site" in given["job_groups"]
    assert given["held_back"]["found"] is None
