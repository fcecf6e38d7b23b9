"""The workload of commands that simulate: a recorded trace or a synthetic one, and the machine for it."""

from __future__ import annotations

import argparse
from pathlib import Path

from jobsight_scheduler.workload.lublin import lublin
from jobsight_scheduler.workload.swf import Trace, write_swf
from jobsight_server.errors import UserError
from jobsight_server.simulations.machine_workload import MachineWorkload, fit, read_trace


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Adds TRACE, or what makes one, and ``--load``."""
    trace = "Standard Workload Format, plain or .gz; omit with --synthetic"
    parser.add_argument("trace", metavar="TRACE", type=Path, nargs="?", help=trace)
    synthetic = parser.add_argument_group("a synthetic workload")
    model = "generate jobs for the machine with the model of Lublin and Feitelson (2003)"
    synthetic.add_argument("--synthetic", choices=("lublin",), help=model)
    synthetic.add_argument("--jobs", type=int, default=5000, metavar="COUNT", help="number of jobs (default: 5000)")
    synthetic.add_argument(
        "--workload-seed", type=int, default=0, metavar="NUMBER", help="seed of the generated jobs (default: 0)"
    )
    synthetic.add_argument(
        "--workload-out", type=Path, metavar="FILE.swf", help="write the generated jobs to this file, .swf or .swf.gz"
    )
    parser.add_argument(
        "--load",
        type=float,
        metavar="LOAD",
        help="scale the times between submissions to this offered load, such as 0.8",
    )


def read_workload(args: argparse.Namespace, processors: int | None, load: float | None) -> MachineWorkload:
    """The workload that the arguments describe, for a machine of ``processors``, if not as in the trace's header.

    Times between submissions are stretched to ``load``.

    Raises:
        UserError: no such trace, none of its jobs can run, or a load that cannot be had.
    """
    if args.trace is None:
        return fit(_synthetic(args, processors), Path(f"synthetic-{args.synthetic}"), processors, load)
    if args.synthetic or args.workload_out:
        raise UserError(f"{args.trace}: a trace was given; leave it out, or leave out --synthetic and --workload-out")
    return read_trace(args.trace, processors, load)


def _synthetic(args: argparse.Namespace, processors: int | None) -> Trace:
    """The jobs that ``--synthetic`` makes, also written to ``--workload-out``."""
    if args.synthetic is None:
        raise UserError("give a trace of the Standard Workload Format, or --synthetic lublin")
    if processors is None:
        raise UserError("--synthetic makes jobs for a machine: give its --processors, such as 128")
    try:
        trace = lublin(args.jobs, processors, args.workload_seed)
    except ValueError as error:
        raise UserError(f"--synthetic {args.synthetic}: {error}") from error
    if args.workload_out is not None:
        try:
            write_swf(trace, args.workload_out)
        except OSError as error:
            raise UserError(f"--workload-out {args.workload_out}: {error.strerror or error}") from error
    return trace
