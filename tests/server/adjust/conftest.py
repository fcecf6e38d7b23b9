"""A PBS of two scripts with a queue in a file, and a site that has learned its jobs' needs."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests import make

from jobsight_server.accounting.follow_queue import QueueFollower
from jobsight_server.adjust.pbs import Pbs
from jobsight_server.adjust.run import Adjuster
from jobsight_server.cli import main
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.ground.seldom import Seldom
from jobsight_server.learning.finished import profile_finished
from jobsight_server.settings.declared import AccountingSource, Settings
from jobsight_server.settings.tables import AdjustLimits
from jobsight_server.storage.schema import adjustments

NOW = 1_700_000_000.0
GIB = 2**30
QALTER = """#!{python}
import json, os, re, signal, sys, time
flag, text, job = sys.argv[1:]
assert flag == "-l", sys.argv
mode = open("{directory}/mode").read()
with open("{directory}/calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if mode == "refuse":
    sys.exit("qalter: Unauthorized Request  " + job)
if mode == "hang":
    time.sleep(60)
if mode == "kill before":
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit()
queue = json.load(open("{directory}/queue"))
name, _, value = text.partition("=")
queue["Jobs"][job]["Resource_List"][name] = value
open("{directory}/new", "w").write(json.dumps(queue))
os.rename("{directory}/new", "{directory}/queue")
if mode == "kill after":
    os.kill(os.getppid(), signal.SIGKILL)
"""


@dataclass(frozen=True)
class FakePbs:
    """``mode`` says what qalter does: works, refuse, hang, or kills who called it before or after the change."""

    directory: Path

    def make(self) -> None:
        for name, text in (
            ("qstat", f"#!/bin/sh\ncat {self.directory}/queue\n"),
            ("qalter", QALTER.replace("{python}", sys.executable).replace("{directory}", str(self.directory))),
        ):
            (self.directory / name).write_text(text)
            (self.directory / name).chmod(0o755)
        self.mode("works")
        self._write({})

    def mode(self, mode: str) -> None:
        (self.directory / "mode").write_text(mode)

    def submit(self, job_id: str, **changed: Any) -> None:
        stamp = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(NOW))
        resources = {"ncpus": 4, "mem": "16gb", "walltime": "10:00:00", **changed.pop("resources", {})}
        job = {"Job_Name": "cfd", "Job_Owner": "ann@login", "job_state": "Q", "queue": "q", "qtime": stamp}
        self._write(self.jobs | {job_id: {**job, "Resource_List": resources, **changed}})

    def alter(self, job_id: str, **changed: Any) -> None:
        self._write(self.jobs | {job_id: self.jobs[job_id] | changed})

    @property
    def jobs(self) -> dict[str, Any]:
        return dict(json.loads((self.directory / "queue").read_text())["Jobs"])

    def given(self, name: str = "mem") -> dict[str, str]:
        return {job_id: job["Resource_List"][name] for job_id, job in self.jobs.items()}

    @property
    def calls(self) -> list[str]:
        file = self.directory / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def _write(self, found: dict[str, Any]) -> None:
        (self.directory / "queue").write_text(json.dumps({"pbs_server": "srv", "Jobs": found}))


@dataclass
class AdjustedSite:
    """A cluster whose user ``ann`` has run ``cfd`` on 4 processors, asking for 16 GiB and using 1."""

    pbs: FakePbs
    engine: Engine
    now: float = NOW

    def follow(self) -> None:
        source = AccountingSource(
            "alpha", directory=self.pbs.directory, format="pbspro", qstat=(str(self.pbs.directory / "qstat"),)
        )
        report = QueueFollower(self.engine, source, lambda: self.now, Seldom(60.0, 9)).read()
        assert report.unreadable == {}

    def adjuster(self, **limits: Any) -> Adjuster:
        wide = AdjustLimits("alpha", **{"users_share": 1.0, "timeout_s": 5.0, **limits})
        qstat, qalter = (str(self.pbs.directory / name) for name in ("qstat", "qalter"))
        reader = AnswerReader(ForecastConfig())
        pbs = Pbs((qstat,), (qalter,), wide.timeout_s)
        return Adjuster(self.engine, reader, pbs, "alpha", wide, Settings().least, lambda: self.now)

    def ran(self, number: int, used_gib: float = 1.0, failed_gib: float | None = None, user: str = "ann") -> None:
        """A run of such a job; ``failed_gib``: it was given so much, and ran out of it."""
        start = NOW - 90_000 + number * 100
        with self.engine.begin() as connection:
            make.job(
                connection, f"{number}.srv", user=user, name="cfd", queue="q", start=start, end=start + 50,
                submitted=start - 10, processors=4, requested_memory_bytes=int((failed_gib or 16) * GIB),
                asked_memory_bytes=16 * GIB, requested_walltime_s=36000.0, used_memory_bytes=int(used_gib * GIB),
                recorded_at=NOW, failure=None if failed_gib is None else "memory", profiled=False, exit_status=0,
            )  # fmt: skip

    def learn(self) -> None:
        profile_finished(self.engine, 0.0, lambda: self.now)

    def rows(self) -> list[tuple[Any, ...]]:
        columns = [adjustments.c[name] for name in ("job_id", "resource", "parameter", "old", "new", "state")]
        return make.rows(self.engine, select(*columns).order_by(adjustments.c.id))

    def command(self, *arguments: str) -> Done:
        """`jobsight adjust` in this process."""
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            status = main(self._arguments(*arguments))
        return Done(status, printed.getvalue(), said.getvalue())

    def command_to_kill(self, *arguments: str) -> int:
        """Run the command in a separate process; return its status."""
        code = "import sys; from jobsight_server.cli import main; sys.exit(main(sys.argv[1:]))"
        whole = [sys.executable, "-c", code, *self._arguments(*arguments)]
        return subprocess.run(whole, capture_output=True, timeout=120).returncode

    def _arguments(self, *arguments: str) -> list[str]:
        directory = self.pbs.directory
        settings = directory / "jobsight.toml"
        settings.write_text(
            f'[[accounting]]\ncluster = "alpha"\ndirectory = "{directory}"\nformat = "pbspro"\n'
            f'qstat = ["{directory}/qstat"]\n[[adjust]]\ncluster = "alpha"\nusers_share = 1.0\n'
            f'command = ["{directory}/qalter"]\n'
        )
        url = self.engine.url.render_as_string(hide_password=False)
        return ["adjust", "--scheduler", "pbs", "--config", str(settings), "--database", url, *arguments]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> AdjustedSite:
    pbs = FakePbs(tmp_path)
    pbs.make()
    found = AdjustedSite(pbs, engine)
    for number in range(20):
        found.ran(number)
    found.learn()
    return found
