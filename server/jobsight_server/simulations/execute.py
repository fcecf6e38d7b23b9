"""Executes queued runs, one at a time, each in a process of its own: it can be killed, and gives its memory back."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from jobsight_server.simulations.runs import SERVER_STOPPED, Claimed, claim, finish, set_progress, still_wanted

log = logging.getLogger(__name__)

PLOTS = ("utilisation", "queue", "slowdown", "gantt")
JOBS = "jobs.csv"

_LOOK_EVERY_S = 0.5
_ERROR_LENGTH = 2000


def run_queued(engine: Engine, stop: threading.Event, clock: Callable[[], float]) -> None:
    """Executes what is queued, in its order, until nothing is or ``stop`` is set."""
    while not stop.is_set() and (run := claim(engine, clock())) is not None:
        log.info("simulation %d: %s on %s", run.id, run.parameters, run.name)
        with TemporaryDirectory(prefix="jobsight-simulation-") as folder:
            _execute(engine, run, Path(folder), stop, clock)


def _execute(engine: Engine, run: Claimed, folder: Path, stop: threading.Event, clock: Callable[[], float]) -> None:
    trace = folder / f"{_file_name(run.name)}.gz"
    trace.write_bytes(run.trace)
    command = [sys.executable, "-m", "jobsight_server.simulations.child", str(trace), *run.parameters.arguments()]
    command += ["--json", "--plot", str(folder / "plots"), "--jobs-out", str(folder / JOBS)]
    command += ["--progress-out", str(folder / "progress")]
    with (folder / "out").open("wb") as out, (folder / "errors").open("wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)
    try:
        while not _ended(child):
            if stop.is_set():
                finish(engine, run.id, clock(), "stopped", SERVER_STOPPED)
                return
            if not still_wanted(engine, run.id):
                return
            _tell_progress(engine, run.id, folder / "progress")
    finally:
        child.kill()
        child.communicate()
    if child.returncode:
        finish(engine, run.id, clock(), "failed", _reason(folder, child.returncode))
        return
    figures = json.loads((folder / "out").read_text())
    del figures["by_user"]  # of a site's thousands; the table of jobs has them
    files = {f"{name}.svg": (folder / "plots" / f"{name}.svg").read_bytes() for name in PLOTS}
    finish(engine, run.id, clock(), "done", None, figures, {JOBS: (folder / JOBS).read_bytes(), **files})


def _ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(_LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _tell_progress(engine: Engine, run_id: int, file: Path) -> None:
    told = file.read_text() if file.exists() else ""
    if told:  # empty while it is written
        set_progress(engine, run_id, float(told))


def _file_name(name: str) -> str:
    """A name for the trace that titles and messages can show, whatever it was called where it came from."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name.removesuffix(".gz")).lstrip("-.")[-60:] or "trace"


def _reason(folder: Path, status: int) -> str:
    """What the command said of itself, in its own words."""
    text = (folder / "errors").read_text(errors="replace").replace(f"{folder}/", "")
    said = [line for line in text.splitlines() if line.startswith("jobsight simulate: ")]
    if said:
        return said[-1].removeprefix("jobsight simulate: ")[:_ERROR_LENGTH]
    log.error("a simulation ended with status %d: %s", status, text)
    if status < 0:
        return f"it was ended by signal {-status}; 9 is what comes when memory has run out"
    return f"it ended with status {status}; the server's log has more"
