"""The jobs of a trace in canonical form, for a machine of a given size."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobsight_scheduler.workload.canonical import LARGEST_MACHINE, Workload, canonical
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.swf import Trace, read_swf
from jobsight_server.errors import UserError


@dataclass(frozen=True, slots=True)
class MachineWorkload:
    """A trace and its jobs in canonical form, for a machine of ``capacity`` processors."""

    name: str
    trace: Trace
    workload: Workload
    capacity: int


def read_trace(file: Path, processors: int | None, load: float | None) -> MachineWorkload:
    """The trace in ``file``, as ``fit`` prepares it.

    Raises:
        UserError: no such trace, none of its jobs can run, or an impossible load.
    """
    try:
        trace = read_swf(file)
    except FileNotFoundError as error:
        raise UserError(f"{file}: no such file; give a trace of the Standard Workload Format") from error
    except (EOFError, zlib.error) as error:
        raise UserError(f"{file}: the compressed file is broken ({error}); download it again") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # the reader's error for a file that is not a trace
        raise UserError(f"{file}: {error}" if str(file) not in str(error) else str(error)) from error
    return fit(trace, file, processors, load)


def fit(trace: Trace, file: Path, processors: int | None, load: float | None) -> MachineWorkload:
    """``trace`` for a machine of ``processors``, by default those of its header, at ``load``, by default its own.

    Raises:
        UserError: none of its jobs can run, or an impossible load; ``file`` names the trace.
    """
    capacity = _capacity(trace, processors, file)
    try:
        workload = canonical(trace, capacity)
        if not len(workload):
            why = (f"{n} {reason} (first: {workload.places[reason]})" for reason, n in workload.dropped.items())
            raise UserError(f"none of its {len(trace)} jobs can run: {', '.join(why)}; a larger machine may help")
        if load is not None:
            workload = scaled_to(workload, capacity, load)
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error
    return MachineWorkload(file.name, trace, workload, capacity)


def _capacity(trace: Trace, given: int | None, file: Path) -> int:
    if given is not None:
        if not 1 <= given <= LARGEST_MACHINE:
            raise UserError(f"--processors {given}: give from 1 to {LARGEST_MACHINE:,}")
        return given
    if trace.max_processors is None:
        raise UserError(f"{file} has no MaxProcs in its header: give --processors")
    if trace.max_processors > LARGEST_MACHINE:
        raise UserError(
            f"{file}: MaxProcs: {trace.max_processors} in the header; at most {LARGEST_MACHINE:,} processors are "
            "simulated: correct it, or give --processors"
        )
    return trace.max_processors


def counted(trace: Trace, workload: Workload) -> dict[str, Any]:
    """The reader's repairs and the jobs that cannot be simulated, by reason, with the place of the first of each."""
    return {
        "repairs": dict(trace.repairs),
        **{name: workload.counts[name] for name in ("dropped", "clamped", "reordered")},
        "dropped_because": dict(workload.dropped),
        "first_places": trace.places | workload.places,
    }
