"""Requests that are lowered as recommended: an application whose need grows past its lowered request is not killed for
ever, whether or not the log says what its user asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.auth.tokens import create_token
from jobsight_server.profiler.run import profile_finished
from jobsight_server.serve.app import create_app
from jobsight_server.settings import load_settings

from .conftest import MIB, NOON

SUCH_JOBS = 5  # as in the schedulers' scripts
ASKED = {"memory": 4000, "time": 600}  # MiB, minutes
MODES = ("reported", "unknown")
"""Whether the log says what the user asked for, or nothing does."""

Run = Callable[[int, int, bool], None]


class Site:
    """One user who submits one application over and over, to a scheduler that lowers its requests."""

    def __init__(self, engine: Engine, client: FlaskClient, folder: Path, release: Any, what: str, mode: str) -> None:
        self.engine, self.client, self.folder, self.release = engine, client, folder, release
        self.what, self.mode = what, mode
        self.jobs = 0
        self.texts: list[str] = []

    def submit(self, need: int) -> bool:
        """Run a job with the plugin's version of the user's request; return whether it ended."""
        self.given = self.next_given()
        self._log(need)
        return need <= self.given

    def next_given(self) -> int:
        """Memory set by a plugin with the setting ``lower`` for the user's request."""
        slurm = {"num_tasks": 1, "nodes": 1, "mem": ASKED["memory"], "time_limit": ASKED["time"]}
        asked = {"cluster": "lab", "user": "ann", "application": "cfd", "queue": "batch", "slurm": slurm}
        answer = self.client.post("/api/v1/advice", json=asked).get_json()
        self.texts.append(answer["text"])
        recommended = answer["slurm"]["mem" if self.what == "memory" else "time_limit"]
        lowers = answer["such_jobs"] >= SUCH_JOBS and recommended is not None
        return min(recommended, ASKED[self.what]) if lowers else ASKED[self.what]

    def _log(self, need: int) -> None:
        self.jobs += 1
        start, killed = NOON + 100_000 * self.jobs, need > self.given
        memory = min(need, self.given) if self.what == "memory" else 300
        minutes = min(need, self.given) if self.what == "time" else 30
        limits = ASKED | {self.what: self.given}
        state = {"memory": "OUT_OF_MEMORY", "time": "TIMEOUT"}[self.what] if killed else "COMPLETED"
        tres = [{"type": "cpu", "count": 1}, {"type": "mem", "count": limits["memory"]}, {"type": "node", "count": 1}]
        job = self.release.job(
            job_id=self.jobs,
            name="cfd",
            nodes="n01",
            submission=start - 60,
            start=start,
            end=start + 60 * minutes,
            limit=limits["time"],
            state=(state,),
            requested=tres,
            allocated=tres,
            steps=[
                self.release.step("batch", start, start + 60 * minutes, memory * MIB, 1.0) | {"tasks": {"count": 1}}
            ],
        )
        job["required"] = {"CPUs": 1}
        if self.mode == "reported" and self.given < ASKED[self.what]:
            part = {"memory": "mem_per_node:4000M", "time": "time:600"}[self.what]
            job["comment"] = {"administrator": f"jobsight: ... Set: ... jobsight_asked={part}", "job": "", "system": ""}
        file = self.folder / f"{self.jobs}.json"
        file.write_bytes(self.release.document(job))
        import_files(self.engine, [file], "lab", lambda: 1.8e9, "slurm")
        profile_finished(self.engine, 0.0, lambda: 1.8e9)


@pytest.fixture
def site(sqlite_engine: Engine, tmp_path: Path, newest: Any) -> Callable[[str, str], Site]:
    settings = load_settings(flags={"database": sqlite_engine.url.render_as_string(), "clusters": "lab"})
    client = create_app(settings, sqlite_engine, sqlite_engine).test_client()
    with sqlite_engine.begin() as connection:
        token = create_token(connection, "scheduler", "slurmctld", 0.0)[1]
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return lambda what, mode: Site(sqlite_engine, client, tmp_path, newest, what, mode)


def killed(site: Site, needs: Sequence[int]) -> int:
    """Number of kills until each of these jobs is done; their user submits them again."""
    count = 0
    for need in needs:
        while not site.submit(need):
            count += 1
            assert count < 50, site.texts[-1]
    return count


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", ["memory", "time"])
def test_need_that_grows_past_a_lowered_request_is_given(
    site: Callable[[str, str], Site], what: str, mode: str
) -> None:
    unit = 1 if what == "memory" else 0.1
    here = site(what, mode)

    def needs(amount: float, jobs: int) -> list[int]:
        return [math.ceil(unit * amount)] * jobs

    assert killed(here, needs(120, 12)) == 0
    before = here.next_given()
    assert unit * 120 <= before < ASKED[what] / 2, "its request is lowered"
    # Past what was set: the next attempt has it, and its user reads why.
    assert killed(here, needs(1.2 * before / unit, 10)) == 1
    grown = here.next_given()
    assert grown > before
    assert f"1 ran out of {what}" in here.texts[-1]
    assert killed(here, needs(min(2 * grown, 0.9 * ASKED[what]) / unit, 10)) <= 2
    # What it asks for is the last resort, and always enough.
    assert killed(here, needs(0.98 * ASKED[what] / unit, 6)) <= 3
