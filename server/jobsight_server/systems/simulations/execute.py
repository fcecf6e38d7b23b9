"""Executes queued runs, one at a time, each in a separate process: it can be killed, and frees its memory."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Engine

from jobsight_server.systems.simulations.parameters import JOBS, PLOTS
from jobsight_server.systems.simulations.runs import SERVER_STOPPED, Claimed, claim, finish, set_progress, still_wanted

log = logging.getLogger(__name__)

# Messages of libraries that raise something else when an allocation fails.
_OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|Memory allocation still failed|failed to map segment|Cannot allocate memory"
)
_LOOK_EVERY_S = 0.5
_ERROR_LENGTH = 2000


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run."""

    memory_bytes: int = 4 * 2**30
    time_s: float = 3600.0

    @property
    def memory_message(self) -> str:
        return (
            f"it needs more than {self.memory_bytes:,} bytes of memory: simulate a part of the trace, or use "
            "`jobsight simulate`"
        )

    @property
    def time_message(self) -> str:
        return (
            f"it took longer than {self.time_s:,g} s: simulate a part of the trace, try another policy, or use "
            "`jobsight simulate`"
        )


def run_queued(
    engine: Engine, stop: threading.Event, clock: Callable[[], float], limits: RunLimits | None = None
) -> None:
    """Executes queued runs in order, until none is left or ``stop`` is set."""
    while not stop.is_set() and (run := claim(engine, clock())) is not None:
        log.info("simulation %d: %s on %s", run.id, run.parameters, run.name)
        with TemporaryDirectory(prefix="jobsight-simulation-") as folder:
            _execute(engine, run, Path(folder), stop, clock, limits or RunLimits())


def _execute(
    engine: Engine, run: Claimed, folder: Path, stop: threading.Event, clock: Callable[[], float], limits: RunLimits
) -> None:
    trace = folder / f"{_file_name(run.name)}.gz"
    trace.write_bytes(run.trace)
    parameters = json.dumps(asdict(run.parameters))
    command = [sys.executable, "-P", "-m", "jobsight_server.systems.simulations.worker"]
    command += [str(limits.memory_bytes), str(int(limits.time_s) + 1), str(trace), parameters, str(folder)]
    with (folder / "report").open("wb") as report, (folder / "errors").open("wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=report, stderr=errors)
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
            if (progress := _reported(folder).get("progress")) is not None:
                set_progress(engine, run.id, progress)
    finally:
        child.kill()
        child.communicate()
    reported = _reported(folder)
    if child.returncode or "figures" not in reported:
        finish(engine, run.id, clock(), "failed", _reason(folder, child.returncode, reported, limits))
        return
    files = {name: (folder / name).read_bytes() for name in (JOBS, *(f"{plot}.svg" for plot in PLOTS))}
    finish(engine, run.id, clock(), "done", None, reported["figures"], files)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(_LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _reported(folder: Path) -> dict[str, Any]:
    """The latest of each report of the worker; a line still being written is ignored."""
    latest: dict[str, Any] = {}
    for line in (folder / "report").read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            latest |= json.loads(line)
    return latest


def _file_name(name: str) -> str:
    """A name for the trace that is safe in titles and messages, whatever its original name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name.removesuffix(".gz")).lstrip("-.")[-60:] or "trace"


def _reason(folder: Path, status: int, reported: Mapping[str, Any], limits: RunLimits) -> str:
    """Why there are no figures; the worker's own message if there is one."""
    if status == -signal.SIGXCPU:
        return limits.time_message
    if "error" in reported:
        return str(reported["error"]).replace(f"{folder}/", "")[:_ERROR_LENGTH]
    text = (folder / "errors").read_text(errors="replace")
    if "out_of_memory" in reported or _OUT_OF_MEMORY.search(text):
        return limits.memory_message
    log.error("a simulation ended with status %d: %s", status, text)
    if status < 0:
        return f"it was killed by signal {-status} (9: memory has run out)"
    return f"it ended with status {status}; the server's log has more"
