"""Running a simulation in slices, saving it, and resuming it."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from jobsight_scheduler.workload.canonical import Workload

SLICE = 2_000
"""Events per slice, between calls of ``watch``."""


class Steps(Protocol):
    """A simulation, of any machine, that can be advanced, watched and saved."""

    @property
    def workload(self) -> Workload:
        """The jobs."""

    @property
    def capacity(self) -> int:
        """Processors of the machine."""

    @property
    def now(self) -> float:
        """Time of the last event."""

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""

    @property
    def done(self) -> bool:
        """Whether all jobs have ended."""

    def advance(self, events: int) -> bool:
        """Handle the next ``events`` events, or as many as there are; return ``done``."""

    def state(self) -> dict[str, Any]:
        """Return the state of the simulation, as JSON values."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state``."""


Watch = Callable[[Steps], bool]
"""Called between slices; true stops the simulation."""


def run(simulation: Steps, watch: Watch | None = None) -> float:
    """Advance ``simulation`` until it is done, or ``watch`` stops it; return the CPU seconds used."""
    spent = 0.0
    while True:
        began = time.process_time()
        done = simulation.advance(SLICE)
        spent += time.process_time() - began
        if done or (watch is not None and watch(simulation)):
            return spent


VERSION = 1


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this simulation."""


def save(simulation: Steps, file: Path, settings: dict[str, Any]) -> None:
    """Write the state of ``simulation``, as compressed JSON; ``settings`` is everything else that determines the
    schedule.

    The file is replaced atomically: readers find the old one or the new one.
    """
    content = {"identity": _identity(simulation, settings), "state": simulation.state()}
    part = file.with_name(f"{file.name}.part")
    part.write_bytes(gzip.compress(json.dumps(content).encode(), 1))
    part.replace(file)


def resume(simulation: Steps, file: Path, settings: dict[str, Any]) -> None:
    """Restore the saved state into a new ``simulation``.

    Raises:
        CheckpointError: it is of another workload or other settings, or not a checkpoint.
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))
        saved, state = content["identity"], content["state"]
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is not a saved simulation ({error}): remove it to start again") from error
    ours = _identity(simulation, settings)
    for name in {**ours, **saved}:
        if saved.get(name) != ours.get(name):
            raise CheckpointError(
                f"{file} was saved with {name} {saved.get(name)!r}, this is {ours.get(name)!r}: "
                "use the same value as then, or another file"
            )
    simulation.restore(state)


def _identity(simulation: Steps, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "workload": _digest(simulation.workload),
        "processors": simulation.capacity,
        **settings,
    }


def _digest(workload: Workload) -> str:
    digest = hashlib.sha256()
    for column in (workload.submit_s, workload.run_s, workload.estimate_s, workload.processors):
        digest.update(column.tobytes())
    return digest.hexdigest()[:16]
