"""`jobsight tune` on workloads whose best parameters are known."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, insert

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.evaluation.tuning import GRID, interval_over_users, tune_parameter
from jobsight_predictor.forecasters.parameters import FiveParameters
from jobsight_predictor.question import Question
from jobsight_server import cli
from jobsight_server.commands.tune import LEAST, settings_to_write
from jobsight_server.forecasts import forecast_config
from jobsight_server.settings import load_settings
from jobsight_server.storage import schema


def jobs_of(values: np.ndarray, users: list[str]) -> Jobs:
    n = len(values)
    times = np.arange(n, dtype=np.float64)
    questions = [Question(user=user) for user in users]
    return Jobs("t", "memory", questions, times, times, values, np.ones(n), np.full(n, np.nan))


def noisy(n: int, users: int) -> Jobs:
    """Every job the same but for noise: the longer the memory, the better."""
    rng = np.random.default_rng(7)
    return jobs_of(100.0 + 20.0 * rng.standard_normal(n), [f"u{i % users}" for i in range(n)])


def wandering(n: int, users: int) -> Jobs:
    """Random walks: the last value is the best forecast."""
    rng = np.random.default_rng(7)
    logs = np.cumsum(0.3 * rng.standard_normal((n // users, users)), axis=0)
    return jobs_of(np.exp(logs).ravel(), [f"u{i % users}" for i in range(n)])


def test_noise_wants_a_long_memory_and_walks_a_short_one() -> None:
    window, alpha = (tune_parameter(noisy(3000, 6), "completion", name) for name in ("window", "alpha"))
    assert window.chosen >= 30
    assert alpha.chosen <= 0.1
    assert window.helps
    assert alpha.helps
    window, alpha = (tune_parameter(wandering(3000, 6), "completion", name) for name in ("window", "alpha"))
    assert window.chosen == 1
    assert window.helps
    assert alpha.chosen >= 0.5
    assert [value for value, _ in window.tried] == list(GRID["window"])


def test_what_the_later_jobs_do_not_confirm_is_not_recommended() -> None:
    # The earlier jobs are noise, the later ones walks: a long window is chosen, and is worse.
    calm, walks = noisy(2100, 6), wandering(900, 6)
    both = jobs_of(
        np.concatenate([calm.values, walks.values]), [str(q.user) for q in (*calm.questions, *walks.questions)]
    )
    window = tune_parameter(both, "completion", "window")
    assert window.chosen > 5
    assert window.gain < 0.0
    assert not window.helps
    line = {"helps": window.helps, "chosen": window.chosen, "default": 5.0}
    same = {"helps": False, "chosen": 10.0, "default": 10.0}
    assert settings_to_write({"memory": {"parameters": {"window": line, "bins": same, "alpha": same}}}) == {}


def test_the_interval_agrees_with_drawing_users_one_by_one() -> None:
    rng = np.random.default_rng(2)
    users = [np.arange(start, start + 10) for start in range(0, 300, 10)]
    values = np.repeat(rng.normal(1.0, 0.5, 30), 10) + rng.normal(0.0, 0.1, 300)
    found = interval_over_users(values, np.ones(300, dtype=bool), users)
    means = values.reshape(30, 10).mean(axis=1)
    drawn = [means[rng.integers(0, 30, 30)].mean() for _ in range(20_000)]
    assert found == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])), abs=0.03)
    assert interval_over_users(values[:10], np.ones(10, dtype=bool), users[:1]) is None


def trace(file: Path, jobs: Jobs) -> str:
    """As a Standard Workload Format trace: memory in KB."""
    file.write_text(
        "".join(
            f"{i} {100 * i} 0 50 1 1 {1e6 * value:.0f} 1 60 -1 1 {str(question.user)[1:]} 1 1 1 1 -1 -1\n"
            for i, (value, question) in enumerate(zip(jobs.values, jobs.questions, strict=True))
        )
    )
    return str(file)


def test_the_command_prints_settings_that_a_server_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = trace(tmp_path / "walks.swf", wandering(600, 6))
    assert cli.main(["tune", file, "--metric", "memory", "runtime", "--workers", "1", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    memory = account["metrics"]["memory"]
    assert (memory["jobs"], memory["earlier"] + memory["later"]) == (600, 594)
    assert memory["parameters"]["window"]["chosen"] == 1
    assert memory["beside"]["locality"] == pytest.approx(memory["parameters"]["window"]["accuracy_chosen"])
    assert account["metrics"]["runtime"]["parameters"]["window"]["gain"] == 0.0  # all alike
    assert account["settings"]["window"] == ["5", "memory=1"]
    assert cli.main(["tune", file, "--metric", "memory", "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith(("window =", "bins =", "alpha ="))]
    settings = tmp_path / "jobsight.toml"
    settings.write_text("\n".join(lines))
    assert "window" in tomllib.loads(settings.read_text())
    assert forecast_config(load_settings(settings)).parameters("memory").window == 1
    assert forecast_config(load_settings(settings)).parameters("cpu") == FiveParameters()
    assert "Jobsight's answer" in printed
    assert "…" not in printed


def test_what_cannot_be_tuned_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace(tmp_path / "few.swf", noisy(10, 2))
    assert cli.main(["tune", file, "--metric", "memory"]) == 1
    assert "memory: 10 jobs have a value; at least 20 are needed" in capsys.readouterr().err
    assert cli.main(["tune", file, "--workers", "0"]) == 1
    assert "--workers 0: give 1 to 10000" in capsys.readouterr().err
    assert cli.main(["tune", str(tmp_path / "no.swf"), "--metric", "memory"]) == 1
    assert "no such file" in capsys.readouterr().err


def test_a_metric_that_no_job_has_is_left_out_in_one_plain_line(
    engine: Engine, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine.begin() as connection:
        for number in range(LEAST + 2):
            run = {"cluster": "c", "job_id": str(number), "user": "u", "start": 10.0 * number, "recorded_at": 0.0}
            run |= {"end": run["start"] + 5.0, "state": "requeued" if number < 2 else "ended", "profiled": number >= 2}
            run_id = connection.scalar(insert(schema.jobs).values(run).returning(schema.jobs.c.id))
            if number >= 2:
                row = {"run_id": run_id, "learn_seq": number}
                connection.execute(insert(schema.profiles).values(**row, metric="runtime", value=5.0))
                missing = {"value": None, "reason": "no samples of n1"}
                connection.execute(insert(schema.profiles).values(**row, metric="bandwidth", **missing))
    metrics = ["--metric", "runtime", "bandwidth", "--workers", "1"]
    assert cli.main(["tune", "--database", database_url, *metrics]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "Left out: bandwidth: no job has a bandwidth value: a run that is requeued is not profiled (2), "
        f"no samples of n1 ({LEAST})" in out
    )


def test_a_dask_cluster_finds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (group papers)")
    arguments = ["tune", trace(tmp_path / "walks.swf", wandering(300, 6)), "--metric", "memory", "runtime", "--json"]
    assert cli.main([*arguments, "--workers", "1"]) == 0
    here = json.loads(capsys.readouterr().out)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        assert cli.main([*arguments, "--dask", cluster.scheduler_address]) == 0
    assert json.loads(capsys.readouterr().out) == here


def test_without_dask_tune_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    file = trace(tmp_path / "walks.swf", wandering(300, 6))
    assert cli.main(["tune", file, "--metric", "memory", "--dask", "tcp://127.0.0.1:1"]) == 1
    assert "pip install 'jobsight[dask]'" in capsys.readouterr().err
