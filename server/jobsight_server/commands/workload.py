"""The workload of commands that simulate: a recorded trace or a synthetic one, and the machine for it."""

from __future__ import annotations

import argparse
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobsight_scheduler.workload.canonical import LARGEST_MACHINE, Workload, canonical
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.lublin import lublin
from jobsight_scheduler.workload.swf import Trace, read_swf, write_swf
from jobsight_server.errors import UserError


@dataclass(frozen=True, slots=True)
class Given:
    """A trace and its jobs in canonical form, for a machine of ``capacity`` processors."""

    name: str
    trace: Trace
    workload: Workload
    capacity: int


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Adds TRACE, or what makes one, ``--processors`` and ``--load``."""
    trace = "Standard Workload Format, plain or .gz; left out with --synthetic"
    parser.add_argument("trace", metavar="TRACE", type=Path, nargs="?", help=trace)
    synthetic = parser.add_argument_group("a synthetic workload")
    model = "make jobs by the model of Lublin and Feitelson (2003) for a machine of --processors"
    synthetic.add_argument("--synthetic", choices=("lublin",), help=model)
    synthetic.add_argument("--jobs", type=int, default=5000, metavar="COUNT", help="how many (default: 5000)")
    synthetic.add_argument(
        "--workload-seed", type=int, default=0, metavar="NUMBER", help="the same seed makes the same jobs (default: 0)"
    )
    synthetic.add_argument("--workload-out", type=Path, metavar="FILE.swf", help="write the jobs, .swf or .swf.gz")
    parser.add_argument(
        "--processors",
        type=int,
        metavar="COUNT",
        help="processors of the machine (default: MaxProcs in the header of the trace)",
    )
    parser.add_argument(
        "--load", type=float, metavar="LOAD", help="stretch times between submissions to this offered load, such as 0.8"
    )


def read_workload(args: argparse.Namespace) -> Given:
    """What the arguments describe.

    Raises:
        UserError: no such trace, none of its jobs can run, or a load that cannot be had.
    """
    if args.trace is not None and (args.synthetic or args.workload_out):
        raise UserError(f"{args.trace}: a trace was given; leave it out, or leave out --synthetic and --workload-out")
    file: Path = args.trace or Path(f"synthetic-{args.synthetic}")
    try:
        trace = _synthetic(args) if args.trace is None else read_swf(file)
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


def _synthetic(args: argparse.Namespace) -> Trace:
    """The jobs that ``--synthetic`` makes, also written to ``--workload-out``."""
    if args.synthetic is None:
        raise UserError("give a trace of the Standard Workload Format, or --synthetic lublin")
    if args.processors is None:
        raise UserError("--synthetic makes jobs for a machine: give its --processors, such as 128")
    try:
        trace = lublin(args.jobs, args.processors, args.workload_seed)
    except ValueError as error:
        raise UserError(f"--synthetic {args.synthetic}: {error}") from error
    if args.workload_out is not None:
        try:
            write_swf(trace, args.workload_out)
        except OSError as error:
            raise UserError(f"--workload-out {args.workload_out}: {error.strerror or error}") from error
    return trace


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
