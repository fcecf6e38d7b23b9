"""``jobsight simulate --memory``: a site's own jobs on its own nodes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, insert

from jobsight_scheduler.workload.swf import FIELDS, Trace, read_swf, write_swf
from jobsight_server.cli import main
from jobsight_server.storage import schema

COUNT = 400


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs of 40 groups that request 32 MB on up to 4 of 8 nodes; half of the groups use 7 MB, the others 20.

    Neither the user nor the application alone says which.
    """
    rng = np.random.default_rng(1)
    group = rng.integers(0, 40, COUNT)
    columns = {name: np.full(COUNT, -1.0) for name in FIELDS}
    columns |= {
        "job": np.arange(1.0, COUNT + 1.0),
        "submit_s": np.sort(rng.integers(0, 40_000, COUNT)).astype(float),
        "run_s": rng.integers(100, 900, COUNT).astype(float),
        "processors": rng.integers(1, 5, COUNT).astype(float),
        "requested_s": np.full(COUNT, 900.0),
        "requested_memory_kb": np.full(COUNT, 32.0 * 1024),
        "memory_kb": np.where((group + group // 10) % 2, 7.0, 20.0) * 1024,
        "user": group % 10.0,
        "application": (group // 10).astype(float),
    }
    file = tmp_path_factory.mktemp("traces") / "t.swf.gz"
    write_swf(Trace(columns), file)
    return file


def fill_site(engine: Engine, trace: Path, cluster: str) -> None:
    """The jobs of ``trace`` as finished jobs of ``cluster``, which has a node of 4 processors and two of 2."""
    columns = read_swf(trace).columns
    jobs = [
        {
            "cluster": cluster,
            "job_id": f"{i}",
            "submitted": float(columns["submit_s"][i]),
            "start": float(columns["submit_s"][i]),
            "end": float(columns["submit_s"][i] + columns["run_s"][i]),
            "state": "ended",
            "user": f"u{columns['user'][i]:.0f}",
            "name": "abcd"[int(columns["application"][i])],
            "processors": int(columns["processors"][i]),
            "requested_memory_bytes": int(columns["requested_memory_kb"][i] * 1024 * columns["processors"][i]),
            "used_memory_bytes": int(columns["memory_kb"][i] * 1024 * columns["processors"][i]),
            "requested_walltime_s": 900.0,
            "recorded_at": 0.0,
            "profiled": True,
        }
        for i in range(len(columns["job"]))
    ]
    zeros = dict.fromkeys(("first_time", "last_time", "received_at"), 0.0)
    counts = dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0)
    texts = {"boot_id": "b", "interfaces": "[]", "counters": "{}", "agent": "{}"}
    sizes = {"n1": (4, 4 * 32), "n2": (2, 2 * 24), "n3": (2, 2 * 24)}
    nodes = [
        {"cluster": cluster, "name": name, "cpus": cpus, "memory_total_bytes": mb * 2**20, **zeros, **counts, **texts}
        for name, (cpus, mb) in sizes.items()
    ]
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), jobs)
        connection.execute(insert(schema.nodes), nodes)


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
    assert f"With what they request, jobs wait {none / 3600:,.1f} hours on average" in shown

    assert main([*command, "--json", "--ask-again", "--policy", "fcfs", "--estimators", "oracle", "last-instance"]) == 0
    again = [(row["estimator"], row["asked"]) for row in json.loads(capsys.readouterr().out)]
    assert again == [("oracle", "group"), *(("last-instance", asked) for asked in ("submission", "group", "all"))]
    assert main([*command, "--ask-again", "--estimators", "last-instance"]) == 0
    shown = capsys.readouterr().out
    assert "last-instance (kept)" in shown
    assert "last-instance (all)" in shown
    assert main([*command, "--ask-again", "--estimators", "none", "oracle"]) == 1
    assert "--ask-again: none, oracle: no estimate changes while jobs wait" in capsys.readouterr().err

    refused = ["simulate", "--memory", str(database), "--cluster"]
    assert main([*refused, "beta"]) == 1
    assert "'beta' has no jobs; clusters with jobs: alpha" in capsys.readouterr().err
    assert main(["simulate", "--memory", str(trace), "--cluster", "alpha"]) == 1
    assert "is not a Jobsight database" in capsys.readouterr().err
    assert main(["simulate", "--memory", str(trace)]) == 1
    assert "give --classes, such as 512x32M,512x24M" in capsys.readouterr().err
    for option, value in (("--load", "0"), ("--workers", "0"), ("--classes", "none"), ("--policy", "sjf")):
        assert main(["simulate", "--memory", str(trace), "--classes", "4x32M", option, value]) == 1
        assert option in capsys.readouterr().err
    fill_site(sqlite_engine, trace, "beta")
    assert main(refused[:-1]) == 1
    assert "give --cluster NAME; clusters with jobs: alpha, beta" in capsys.readouterr().err
