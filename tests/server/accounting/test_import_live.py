"""An import into the database of a running site: it profiles its own runs, and no others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests import make
from tests.server.accounting.conftest import Run

from jobsight_server.storage.schema import jobs, nodes, profiles


def add_node(engine: Engine, name: str, cluster: str, received_at: float) -> None:
    with engine.begin() as connection:
        make.node(connection, name, cluster=cluster, last_time=received_at, received_at=received_at)


def add_run(engine: Engine, job_id: str, cluster: str, end: float) -> None:
    row = {"cluster": cluster, "start": end - 300, "end": end, "user": "live", "processors": 2, "profiled": False}
    with engine.begin() as connection:
        make.job(connection, job_id, on={"n1": 2}, **row)


def import_log(run_import: Run, file: Path, cluster: str) -> Any:
    status, found, _ = run_import(file, "--cluster", cluster, "--clusters", cluster)
    assert status == 0
    return found


def profiled(engine: Engine) -> set[tuple[str, str]]:
    with engine.connect() as connection:
        rows = connection.execute(select(jobs.c.cluster, jobs.c.job_id).where(jobs.c.profiled))
        return {(cluster, job_id) for cluster, job_id in rows}


def test_runs_of_a_running_site_keep_waiting_for_their_samples(
    engine: Engine, directory: Path, log: Any, noon: int, run_import: Run
) -> None:
    now = time.time()
    add_node(engine, "n1", "alpha", now - 20)
    for number in range(4):
        add_run(engine, f"{number}.live", "alpha", now - 10)
    add_run(engine, "9.live", "beta", now - 10)
    log.end("1.s", noon, noon + 60)
    (directory / "old").write_bytes(log.data)
    for cluster in ("alpha", "gamma"):
        found = import_log(run_import, directory / "old", cluster)
        assert (found["profiled"], found["waiting"]) == (1, 0)
    assert profiled(engine) == {("alpha", "1.s"), ("gamma", "1.s")}


@pytest.mark.storage
def test_imported_runs_wait_where_their_nodes_still_send(
    engine: Engine, directory: Path, log: Any, run_import: Run
) -> None:
    now = int(time.time())
    add_node(engine, "n1", "alpha", now - 400)
    log.end("5.s", now - 9000, now - 8000)
    log.end("6.s", now - 900, now - 30)
    (directory / "today").write_bytes(log.data)
    found = import_log(run_import, directory / "today", "alpha")
    assert (found["new_runs"], found["profiled"], found["waiting"]) == (2, 1, 1)
    assert profiled(engine) == {("alpha", "5.s")}
    # Where no node sends anything there is nothing to wait for.
    found = import_log(run_import, directory / "today", "silent")
    assert (found["new_runs"], found["profiled"], found["waiting"]) == (2, 2, 0)
    # What an import had left is done by the next one, once.
    make.execute(engine, nodes.update().values(last_time=now, received_at=now))
    found = import_log(run_import, directory / "today", "alpha")
    assert (found["new_runs"], found["profiled"], found["waiting"]) == (0, 1, 0)
    assert len(make.rows(engine, select(profiles.c.run_id).distinct())) == 4
