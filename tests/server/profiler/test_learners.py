"""Several processes learn a backlog, each some of the metrics: the same rows as one, or a clear error."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.make import not_none
from tests.processes import is_running

from jobsight_predictor.metrics import METRICS
from jobsight_server.forecasts.learners import BY_COST, dealt, usable_cores
from jobsight_server.ground.errors import UserError
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.schema import (
    jobs,
    learned_until,
    model_state,
    pending_at_start,
    pending_forecasts,
    profiles,
    series,
)


def fill(site: Any, plan: Any) -> None:
    """180 ended runs with memory and CPU time, some of which ran out of memory or time, and 20 that have not ended."""
    rng = random.Random(3)
    planned = plan(3, 200, failing=True)
    for number, job in enumerate(planned):
        used = {"used_memory_bytes": int(rng.lognormvariate(20, 2)), "used_cpu_s": rng.uniform(0.0, 9.0)}
        changes = {"end": None, "state": "running", "failure": None, "recorded_at": 0.0} if number < 20 else used
        site.run(**{**job, "on": {"n": job["processors"]}, **changes})


def forget(site: Any) -> None:
    """Make every run unlearned again."""
    site.forget_model()
    with site.engine.begin() as connection:
        connection.execute(profiles.delete())
        connection.execute(jobs.update().values(profiled=False, forecast_seq=None, start_seq=None))


LEARNED = (series, model_state, pending_forecasts, pending_at_start, learned_until, profiles)


@pytest.mark.storage
@pytest.mark.parametrize("processes", [2, 3])
def test_more_processes_give_the_same_rows(site: Any, plan: Any, processes: int) -> None:
    fill(site, plan)
    found = []
    for number in (1, processes):
        forget(site)
        assert profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=30, processes=number)) == 180
        found.append({table.name: site.dump(table) for table in LEARNED})
    assert found[0] == found[1]
    metrics = {row[2] for row in found[0]["model_state"]}
    assert metrics >= {"memory", "cpu", "runtime", "runs of memory", "runs of runtime"}
    assert multiprocessing.active_children() == []


def test_a_killed_process_ends_the_command_and_nothing_is_lost(sqlite_site: Any, plan: Any) -> None:
    site = sqlite_site
    fill(site, plan)
    profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=30))
    expected = {table.name: site.dump(table) for table in LEARNED}
    forget(site)
    learned = 0

    def kill_one(count: int) -> None:
        nonlocal learned
        learned += count
        if learned == 120:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    with pytest.raises(UserError, match="exit code -9, perhaps for lack of memory: repeat the command"):
        profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=30, progress=kill_one, processes=3))
    assert multiprocessing.active_children() == []
    assert learned == 120
    assert profile_finished(site.engine, 0.0, lambda: 1e9, LearningOptions(limit=30)) == 60
    assert {table.name: site.dump(table) for table in LEARNED} == expected


STARTS = """
import multiprocessing, time
from jobsight_server.forecasts import ForecastConfig
from jobsight_server.forecasts.learners import Learners
learners = Learners(ForecastConfig(), 3)
learners._all("changes", [None] * 3)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_its_processes_end_with_it(sent: signal.Signals) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", STARTS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    children = [int(pid) for pid in not_none(started.stdout).readline().split()]
    assert len(children) == 2
    if sent == signal.SIGINT:
        os.killpg(started.pid, sent)  # as a terminal sends it
    else:
        started.kill()
    started.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while any(is_running(pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_cores_are_those_of_the_affinity_and_the_control_group(tmp_path: Path) -> None:
    all_cores = len(os.sched_getaffinity(0))
    limit = tmp_path / "cpu.max"
    assert usable_cores(limit) == all_cores
    for text, cores in (("max 100000\n", all_cores), ("150000 100000\n", 1), ("50000 100000\n", 1)):
        limit.write_text(text)
        assert usable_cores(limit) == cores


@pytest.mark.parametrize("processes", range(1, 9))
def test_every_metric_is_learned_by_one_process(processes: int) -> None:
    groups = dealt(processes)
    assert len(groups) == min(processes, len(METRICS))
    assert sorted(metric for group in groups for metric in group) == sorted(METRICS)
    assert groups[0][0] == BY_COST[0]
    assert all(groups)
