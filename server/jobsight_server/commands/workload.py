"""The arguments TRACE, ``--processors`` and ``--load`` of commands that simulate."""

from __future__ import annotations

import argparse
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobsight_scheduler.workload.canonical import LARGEST_MACHINE, Workload, canonical
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.swf import Trace, read_swf
from jobsight_server.errors import UserError


@dataclass(frozen=True, slots=True)
class Given:
    """A trace and its jobs in canonical form, for a machine of ``capacity`` processors."""

    name: str
    trace: Trace
    workload: Workload
    capacity: int


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Adds TRACE, ``--processors`` and ``--load``."""
    parser.add_argument("trace", metavar="TRACE", type=Path, help="Standard Workload Format, plain or .gz")
    parser.add_argument(
        "--processors",
        type=int,
        metavar="P",
        help="processors of the machine (default: MaxProcs in the header of the trace)",
    )
    parser.add_argument(
        "--load", type=float, metavar="X", help="stretch times between submissions to this offered load, such as 0.8"
    )


def read_workload(args: argparse.Namespace) -> Given:
    """What the arguments describe.

    Raises:
        UserError: no such trace, none of its jobs can run, or a load that cannot be had.
    """
    file: Path = args.trace
    try:
        trace = read_swf(file)
        capacity = _capacity(trace, args.processors, file)
        workload = canonical(trace, capacity)
        if not len(workload):
            why = ", ".join(
                f"{n} {reason} (first: {workload.places[reason]})" for reason, n in workload.dropped.items()
            )
            raise UserError(
                f"{file}: none of its {len(trace)} jobs can run: {why}; give --processors for a larger machine"
            )
        if args.load is not None:
            workload = scaled_to(workload, capacity, args.load)
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"{file}: no such file; give a trace of the Standard Workload Format") from error
    except (EOFError, zlib.error) as error:
        raise UserError(f"{file}: the compressed file is broken ({error}); fetch it anew") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # what the reader says of a file that is no trace
        raise UserError(f"{file}: {error}" if str(file) not in str(error) else str(error)) from error
    return Given(file.name, trace, workload, capacity)


def _capacity(trace: Trace, given: int | None, file: Path) -> int:
    if given is not None:
        if not 1 <= given <= LARGEST_MACHINE:
            raise UserError(f"--processors {given}: give from 1 to {LARGEST_MACHINE:,}")
        return given
    if trace.max_processors is not None:
        if trace.max_processors > LARGEST_MACHINE:
            raise UserError(
                f"{file}: MaxProcs: {trace.max_processors} in the header; at most {LARGEST_MACHINE:,} processors are "
                "simulated: correct it, or give --processors"
            )
        return trace.max_processors
    raise UserError(f"{file} does not tell MaxProcs in its header: give --processors")


def counted(given: Given, workload: Workload) -> dict[str, Any]:
    """What the reader mended and which jobs cannot be simulated, by reason, and the place of the first of each."""
    return {
        "repairs": dict(given.trace.repairs),
        **{name: workload.counts[name] for name in ("dropped", "clamped", "reordered")},
        "dropped_because": dict(workload.dropped),
        "first_places": given.trace.places | workload.places,
    }
