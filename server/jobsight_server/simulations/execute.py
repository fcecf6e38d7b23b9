"""Executes queued runs, one at a time, each in a process of its own: it can be killed, and gives its memory back."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from jobsight_server.simulations.child import MEMORY_USED_UP
from jobsight_server.simulations.runs import SERVER_STOPPED, Claimed, claim, finish, set_progress, still_wanted

log = logging.getLogger(__name__)

PLOTS = ("utilisation", "queue", "slowdown", "gantt")
JOBS = "jobs.csv"

# What libraries say where an allocation failed and they raise something else for it.
_OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|Memory allocation still failed|failed to map segment|Cannot allocate memory"
)
_LOOK_EVERY_S = 0.5
_ERROR_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may take."""

    memory_bytes: int = 4 * 2**30
    time_s: float = 3600.0

    @property
    def memory_message(self) -> str:
        return (
            f"it needs more than {self.memory_bytes:,} bytes of memory (setting simulation_memory_bytes): simulate a "
            "part of the trace, or raise the setting"
        )

    @property
    def time_message(self) -> str:
        return (
            f"it took longer than {self.time_s:,g} s (setting simulation_time_s): simulate a part of the trace, try "
            "another policy, or raise the setting"
        )


def run_queued(engine: Engine, stop: threading.Event, clock: Callable[[], float], limits: Limits | None = None) -> None:
    """Executes what is queued, in its order, until nothing is or ``stop`` is set."""
    while not stop.is_set() and (run := claim(engine, clock())) is not None:
        log.info("simulation %d: %s on %s", run.id, run.parameters, run.name)
        with TemporaryDirectory(prefix="jobsight-simulation-") as folder:
            _execute(engine, run, Path(folder), stop, clock, limits or Limits())


def _execute(
    engine: Engine, run: Claimed, folder: Path, stop: threading.Event, clock: Callable[[], float], limits: Limits
) -> None:
    trace = folder / f"{_file_name(run.name)}.gz"
    trace.write_bytes(run.trace)
    command = [sys.executable, "-m", "jobsight_server.simulations.child"]
    command += [str(limits.memory_bytes), str(int(limits.time_s) + 1), str(trace), *run.parameters.arguments()]
    command += ["--json", "--plot", str(folder / "plots"), "--jobs-out", str(folder / JOBS)]
    command += ["--progress-out", str(folder / "progress")]
    with (folder / "out").open("wb") as out, (folder / "errors").open("wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)
    deadline = time.monotonic() + limits.time_s
    try:
        while not _ended(child):
            if time.monotonic() > deadline:
                finish(engine, run.id, clock(), "failed", limits.time_message)
                return
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
        finish(engine, run.id, clock(), "failed", _reason(folder, child.returncode, limits))
        return
    figures = json.loads((folder / "out").read_text())
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


def _reason(folder: Path, status: int, limits: Limits) -> str:
    """What the command said of itself, in its own words."""
    if status == MEMORY_USED_UP:
        return limits.memory_message
    if status == -signal.SIGXCPU:
        return limits.time_message
    text = (folder / "errors").read_text(errors="replace").replace(f"{folder}/", "")
    said = [line for line in text.splitlines() if line.startswith("jobsight simulate: ")]
    if said:
        return said[-1].removeprefix("jobsight simulate: ")[:_ERROR_LENGTH]
    if _OUT_OF_MEMORY.search(text):
        return limits.memory_message
    log.error("a simulation ended with status %d: %s", status, text)
    if status < 0:
        return f"it was ended by signal {-status}; 9 is what comes when memory has run out"
    return f"it ended with status {status}; the server's log has more"
