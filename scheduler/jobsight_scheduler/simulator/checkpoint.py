"""Saves a simulation between two events and takes it up again, to the same schedule."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from jobsight_scheduler.workload.canonical import Workload

from .run import Steps

VERSION = 1


class CheckpointError(ValueError):
    """A file that is no checkpoint, or not one of this simulation."""


def save(simulation: Steps, file: Path, settings: dict[str, Any]) -> None:
    """Writes where ``simulation`` stands, as compressed JSON; ``settings`` names what else the schedule depends on.

    The file is replaced as a whole: whoever reads it finds the old or the new one.
    """
    content = {"identity": _identity(simulation, settings), "state": simulation.state()}
    part = file.with_name(f"{file.name}.part")
    part.write_bytes(gzip.compress(json.dumps(content).encode(), 1))
    part.replace(file)


def resume(simulation: Steps, file: Path, settings: dict[str, Any]) -> None:
    """Takes a new ``simulation`` to where the one that was saved stood.

    Raises:
        CheckpointError: it is of another workload or other settings, or no checkpoint at all.
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))
        saved, state = content["identity"], content["state"]
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is not a saved simulation ({error}): remove it to start again") from error
    for name, value in _identity(simulation, settings).items():
        if saved.get(name) != value:
            raise CheckpointError(
                f"{file} was saved with {name} {saved.get(name)!r}, this is {value!r}: "
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
