"""Jobs of an emulated site: their true use, and a real server's measurements of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from jobsight_agent.send import Target
from jobsight_emulator.deliver import Delivery, Output, play
from jobsight_emulator.emulation import Emulation, make_emulation
from jobsight_emulator.plan import WEEK_S, EmulatorError, Faults, SitePlan
from jobsight_papers.own_server import free_address, serving
from jobsight_papers.profile_guided.published import campaign_jobs, three_users_jobs
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import open_engine

JOBSIGHT = (sys.executable, "-m", "jobsight_server.cli")
JOBS = {"published": three_users_jobs, "campaign": campaign_jobs}
_END = 1_700_000_000
_CLUSTER = "alpha"
_SERVE = (
    "--follow-interval-s",
    "0.2",
    "--profile-grace-s",
    "60",
    "--retention-days",
    "36500",
    "--fabric",  # an emulated job's traffic uses both networks of its nodes
    "sum",
)
_SETTLED_S = 600.0
_PROFILED = text("SELECT count(*) FROM jobs WHERE profiled AND state = 'ended'")
_MEASURED = text(
    'SELECT j.job_id, j."user", p.metric, p.value FROM profiles p JOIN jobs j ON j.id = p.run_id '
    "WHERE p.metric IN ('memory', 'bandwidth') ORDER BY p.learn_seq"
)


@dataclass(frozen=True, slots=True)
class EmulatedUse:
    """One job that has ended: its user and its use, per processor; None in a metric without a value."""

    job_id: str
    user: str
    memory: float | None
    bandwidth: float | None


def true_use(users: str, seed: int) -> list[EmulatedUse]:
    """Return the true use of the jobs of the emulated ``users`` (a key of ``JOBS``), in order of completion."""
    return _truth(_emulation(users, seed))


def measured_use(users: str, seed: int, directory: Path) -> tuple[list[EmulatedUse], list[EmulatedUse]]:
    """Run the same jobs through agents, a TORQUE accounting log and a server of their own: (true, measured).

    Measured use is that of the server's profiles, in the order in which it learned from them.

    Raises:
        UserError: a part of the site failed, or not all jobs were profiled in time.
    """
    database = f"sqlite:///{directory / 'jobsight.db'}"
    accounting = directory / "accounting"
    (accounting / _CLUSTER).mkdir(parents=True)
    token = _run([*JOBSIGHT, "token", "create", "--role", "agent", "--any-cluster", "--database", database])
    token_file = directory / "agent.token"
    token_file.touch(mode=0o600)
    token_file.write_text(token.split()[-1])
    listen, ingest = free_address(), free_address()
    serve = [
        *JOBSIGHT, "serve", "--database", database, "--listen", listen, "--ingest-listen", ingest, *_SERVE,
        "--accounting", f"{_CLUSTER}={accounting / _CLUSTER}",
    ]  # fmt: skip
    with serving(serve, lambda: _answers(listen) and _answers(ingest), directory / "server.log"):
        emulation = _emulation(users, seed)
        output = Output(emulation, accounting, directory / "truth.csv")
        try:
            with Delivery(Target(f"http://{ingest}", token_file), 8) as delivery:
                play(emulation, delivery, output, lambda _: None)
        except EmulatorError as error:
            raise UserError(f"the emulated agents could not deliver everything: {error}") from error
        if delivery.counts.readings_acknowledged != output.progress.readings_made:
            raise UserError(f"the server rejected batches of the emulated agents: {dict(delivery.counts.refused)}")
        true = _truth(emulation)
        engine = open_engine(database, "read")
        try:
            _wait_until_profiled(engine, len(true))
            return true, _measured(engine)
        finally:
            engine.dispose()


def _emulation(users: str, seed: int) -> Emulation:
    """Eight nodes for four days: room for 600 jobs of twenty minutes."""
    start = _END - int(0.6 * WEEK_S)
    return make_emulation(SitePlan(8, 1, start, _END, seed=seed, faults=Faults(odd_names=False)), 100, JOBS[users])


def _truth(emulation: Emulation) -> list[EmulatedUse]:
    return [
        EmulatedUse(row.job_id, row.user, row.memory_peak_bytes_per_processor, row.bandwidth_bps_per_processor)
        for row in emulation.truths[_CLUSTER]
    ]


def _measured(engine: Engine) -> list[EmulatedUse]:
    found: dict[str, dict[str, Any]] = {}
    with engine.connect() as connection:
        for job_id, user, metric, value in connection.execute(_MEASURED):
            found.setdefault(job_id, {"user": user, "memory": None, "bandwidth": None})[metric] = value
    return [EmulatedUse(job_id, **use) for job_id, use in found.items()]


def _wait_until_profiled(engine: Engine, jobs: int) -> None:
    deadline = time.monotonic() + _SETTLED_S
    while True:
        with engine.connect() as connection:
            done = connection.scalar(_PROFILED) or 0
        if done >= jobs:
            return
        if time.monotonic() > deadline:
            raise UserError(f"only {done} of {jobs} emulated jobs were profiled within {_SETTLED_S:.0f} s")
        time.sleep(0.25)


def _answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{' '.join(command[1:4])} failed: {(done.stderr.strip() or done.stdout)[-500:]}")
    return done.stdout
