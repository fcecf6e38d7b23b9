"""`jobsight backtest` over traces good and bad, and over databases."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine
from tests import make
from tests.make import Jobsight

from jobsight_server.forecasts.workload import jobs_of_database
from jobsight_server.storage.clusters import Part

FIVE = ("history", "sliding-window", "weighted", "locality", "exponential")


def swf_line(number: int, submit: float, run: float = 50.0, memory: float = 1000.0, user: int = 1) -> str:
    return f"{number} {submit} 5 {run} 4 10.5 {memory} 4 600 4096 1 {user} 1 3 2 1 -1 -1"


def swf(tmp_path: Path, lines: list[str], name: str = "t.swf") -> str:
    file = tmp_path / name
    text = "\n".join(lines) + "\n"
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(file)


def refusal_of(jobsight: Jobsight, *arguments: str) -> str:
    given = jobsight("backtest", *arguments, status=1)
    assert given.out == ""
    assert "Traceback" not in given.err
    return given.err


@pytest.mark.parametrize("name", ["t.swf", "t.swf.gz"])
def test_the_json_has_the_documented_shape(tmp_path: Path, jobsight: Jobsight, name: str) -> None:
    trace = swf(
        tmp_path, ["; Version: 2.2", *(swf_line(i, 100.0 * i, memory=1000 * (1 + i % 2)) for i in range(20))], name
    )
    account = jobsight("backtest", trace, "--metric", "memory", "--json").json
    named = {"trace", "metric", "protocol", "jobs", "users", "skipped", "forecasters", "jobsight", "bounds", "pqm"}
    assert named <= set(account)
    assert (account["trace"], account["metric"], account["protocol"]) == (name, "memory", "completion")
    assert (account["jobs"], account["users"], account["skipped"]) == (20, 1, {})
    for line in (*(account["forecasters"][name] for name in FIVE), account["jobsight"]):
        assert set(line) == {"micro", "macro", "within20", "under_rate", "jobs", "share"}
    assert {"target", "coverage", "failures", "maq"} <= set(account["bounds"])
    assert set(account["pqm"]) == {"auc", "users_above_0.8", "accuracy_above_0.8"}
    # 1000, 2000, 1000, 2000 ...: the last value is off by half or by all, in turns, but for the first job's none.
    assert account["forecasters"]["locality"]["micro"] == pytest.approx((10 * 0.5 + 9 * 0.0) / 19)


def test_protocol_and_forecaster_are_obeyed(tmp_path: Path, jobsight: Jobsight) -> None:
    # All are submitted before any has ended.
    trace = swf(tmp_path, [swf_line(i, float(i), run=1000.0) for i in range(5)])
    honest = jobsight("backtest", trace, "--metric", "memory", "--forecaster", "history", "locality", "--json").json
    assert set(honest["forecasters"]) == {"history", "locality"}
    assert honest["forecasters"]["locality"]["jobs"] == 0
    paper = jobsight(
        "backtest", trace, "--metric", "memory", "--protocol", "submission", "--group", "template", "--json"
    ).json
    assert paper["forecasters"]["locality"]["micro"] == 1.0
    assert paper["group"] == "template"
    # One after the other starts when the one before has ended: asked again then, all but the first are known.
    queued = swf(tmp_path, [swf_line(i, 0.0, run=1000.0).replace(" 0.0 5 ", f" 0.0 {1000 * i} ") for i in range(5)])
    first = jobsight("backtest", queued, "--metric", "memory", "--json").json
    again = jobsight("backtest", queued, "--metric", "memory", "--protocol", "start", "--json").json
    assert [account["jobsight"]["share"] for account in (first, again)] == [0.0, 0.8]
    assert again["forecasters"]["locality"]["jobs"] == 4


def test_files_that_are_no_traces_are_refused(tmp_path: Path, jobsight: Jobsight) -> None:
    whole = gzip.compress(b"1 2 3 4 5\n" * 1000)
    (tmp_path / "torn.swf.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "plain.swf.gz").write_text("1 2 3")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    for name, given in {
        "none.swf": "no such file",
        ".": "it is a directory",
        "torn.swf.gz": "is broken",
        "plain.swf.gz": "Not a gzipped file",
        "x.csv": "lacks the columns",
        "binary.csv": "binary.csv",
        "other.db": "other.db",
    }.items():
        assert given in refusal_of(jobsight, str(tmp_path / name), "--metric", "memory")
    assert "no bandwidth" in refusal_of(jobsight, swf(tmp_path, [swf_line(1, 0)]), "--metric", "bandwidth")
    assert "no clusters" in refusal_of(jobsight, swf(tmp_path, []), "--metric", "memory", "--cluster", "a")
    assert "no such file" in refusal_of(jobsight, f"sqlite:///{tmp_path}/none.db", "--metric", "memory")


def test_the_tables_fit_into_80_columns(tmp_path: Path, jobsight: Jobsight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(4)
    lines = [swf_line(i, 100.0 * i, memory=float(rng.choice([1e12, 1e3])), user=i % 3) for i in range(300)]
    given = jobsight("backtest", swf(tmp_path, lines), "--metric", "memory", "--baselines").out
    assert "…" not in given
    assert all(len(line) <= 80 for line in given.splitlines())
    for name in (*FIVE, "best per user", "Jobsight at 0.95", "first-allocation", "recent PQM"):
        assert name in given


def store(engine: Engine, runs: list[dict[str, Any]]) -> None:
    with engine.begin() as connection:
        for number, given in enumerate(runs):
            submitted = 100.0 * number
            run = {"user": "u", "start": submitted + 10, "end": submitted + 60, "submitted": submitted, **given}
            memory = {"value": run.pop("value", 4.0), "reason": run.pop("reason", None), "learn_seq": number}
            node = run.pop("node", None)
            job_id = run.pop("job_id", str(number))
            make.job(connection, job_id, used={"memory": memory}, on={} if node is None else {node: 1}, **run)


@pytest.mark.storage
def test_jobs_of_a_database(engine: Engine, database_url: str, jobsight: Jobsight) -> None:
    known = {"queue": "long", "name": "cfd", "processors": 4}
    runs: list[dict[str, Any]] = [
        known | {"requested_memory_bytes": 64, "requested_walltime_s": 90.0},
        {"cluster": "beta", "submitted": 105.0},
        {"submitted": None, "start": 50.0},
        {"end": None, "state": "running"},
        {"end": 0.0},
        {"start": 500.0, "end": 560.0, "submitted": 900.0},
        {"value": None, "reason": "other jobs were on it"},
        {"value": None},
        *({"value": None, "reason": f"no samples of {node}", "node": node} for node in ("n1", "n2")),
    ]
    store(engine, runs)
    with engine.connect() as connection:
        both = jobs_of_database(connection, "memory", Part(), "db")
        one = jobs_of_database(connection, "memory", Part("alpha"), "db")
        none = jobs_of_database(connection, "cpu", Part(), "db")
    assert both.submitted.tolist() == [0.0, 50.0, 105.0]
    assert both.ended.tolist() == [60.0, 260.0, 160.0]
    assert both.seconds.tolist() == [50.0, 210.0, 50.0]
    assert [question.user for question in both.questions] == ["alpha/u", "alpha/u", "beta/u"]
    first = both.questions[0]
    assert (first.application, first.queue, first.processors, first.requested_time_s) == ("cfd", "long", 4, 90.0)
    assert first.requested_memory_bytes == both.requested[0] == 16.0
    assert both.skipped == {
        "not ended: running": 1,
        "ends before it starts": 1,
        "ends before it was submitted": 1,
        "no memory value: other jobs were on it": 1,
        "no memory value: not profiled yet": 1,
        "no memory value: no samples of a node": 2,
    }
    assert [question.user for question in one.questions] == ["u", "u"]
    assert len(none) == 0
    account = jobsight("backtest", database_url, "--metric", "memory", "--json").json
    assert (account["jobs"], account["users"]) == (3, 2)
    assert jobsight("backtest", database_url, "--metric", "memory", "--cluster", "beta", "--json").json["jobs"] == 1
    if engine.dialect.name == "sqlite":
        assert jobsight("backtest", str(engine.url.database), "--metric", "memory", "--json").json["jobs"] == 3
    assert "unknown cluster 'gamma'; clusters with jobs" in refusal_of(
        jobsight, database_url, "--metric", "memory", "--cluster", "gamma"
    )


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    trace = swf(tmp_path, [swf_line(i, float(i), memory=1000.0 + i % 997, user=i % 50) for i in range(60_000)])
    command = [sys.executable, "-m", "jobsight_server.cli", "backtest", trace, "--metric", "memory", "--baselines"]
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    shown = b""
    while b"replaying" not in shown:
        read = os.read(process.stderr.fileno(), 4096)
        assert read, shown.decode()
        shown += read
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    assert b"interrupted at" in err
    assert b"nothing was written" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize(("name", "given"), [("a.png", "plots are SVG"), ("none/a.svg", "no directory")])
def test_a_picture_that_cannot_be_drawn_is_refused_at_once(
    tmp_path: Path, jobsight: Jobsight, name: str, given: str
) -> None:
    assert given in refusal_of(jobsight, str(tmp_path / "t.swf"), "--metric", "memory", "--plot", str(tmp_path / name))
