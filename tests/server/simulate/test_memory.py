"""``jobsight simulate --memory``: a site's own jobs on its own nodes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests import make

from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.cli import main

COUNT = 400


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make.memory_trace(tmp_path_factory.mktemp("traces") / "t.swf.gz", COUNT)


def fill_site(engine: Engine, trace: Path, cluster: str) -> None:
    """The jobs of ``trace`` as finished jobs of ``cluster``, which has a node of 4 processors and two of 2."""
    columns = read_swf(trace).columns
    with engine.begin() as connection:
        for i, processors in enumerate(map(int, columns["processors"])):
            start = float(columns["submit_s"][i])
            requested_kb, used_kb = (columns[name][i] * processors for name in ("requested_memory_kb", "memory_kb"))
            make.job(
                connection, f"{i}", cluster=cluster, user=f"u{columns['user'][i]:.0f}", submitted=start, start=start,
                end=start + float(columns["run_s"][i]), name="abcd"[int(columns["application"][i])],
                processors=processors, requested_memory_bytes=int(requested_kb * 1024),
                used_memory_bytes=int(used_kb * 1024), requested_walltime_s=900.0,
            )  # fmt: skip
        for name, cpus, mb in (("n1", 4, 4 * 32), ("n2", 2, 2 * 24), ("n3", 2, 2 * 24)):
            make.node(connection, name, cluster=cluster, cpus=cpus, memory_total_bytes=mb * 2**20)


@pytest.mark.exhaustive
def test_the_finished_jobs_of_a_site(sqlite_engine: Engine, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill_site(sqlite_engine, trace, "alpha")
    database = sqlite_engine.url.database
    command = ["simulate", "--memory", str(database), "--workers", "1"]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["groups"] for row in rows} == {40}
    assert {row["classes"] for row in rows} == {"4x32M,4x24M"}
    [load] = {row["load"] for row in rows}
    run = read_swf(trace)
    span = run["submit_s"][-1] - run["submit_s"][0]
    assert load == pytest.approx(float((run["run_s"] * run["processors"]).sum()) / (8 * span))
    none, ours, oracle = (row["mean_wait_s"] for row in rows)
    assert oracle <= ours < 0.9 * none
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"With their requests, jobs wait {none / 3600:,.1f} hours on average" in shown

    assert main([*command, "--json", "--ask-again", "--policy", "fcfs", "--estimators", "oracle", "jobsight"]) == 0
    again = [(row["estimator"], row["asked"]) for row in json.loads(capsys.readouterr().out)]
    assert again == [("oracle", "group"), *(("jobsight", asked) for asked in ("submission", "group", "all"))]
    assert main([*command, "--ask-again", "--estimators", "none", "oracle"]) == 1
    assert "--ask-again: none, oracle: no estimate changes while jobs wait" in capsys.readouterr().err

    assert main(["simulate", "--memory", str(trace)]) == 1
    assert "give --classes, such as 512x32M,512x24M" in capsys.readouterr().err
    fill_site(sqlite_engine, trace, "beta")
    assert main(["simulate", "--memory", str(database)]) == 1
    assert "give --cluster NAME; clusters with jobs: alpha, beta" in capsys.readouterr().err
