"""Output files of a simulation: a table of its jobs, a saved state, plots."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from jobsight_scheduler.table import SCHEDULE, JobTable, write_parquet, write_table
from jobsight_server.storage.errors import UserError


def check_outputs(args: argparse.Namespace) -> None:
    """Check now what would otherwise fail after minutes.

    Raises:
        UserError: a requested output cannot be written.
    """
    for flag in ("schedule_out", "jobs_out", "state"):
        file = getattr(args, flag)
        if file is not None and not file.parent.is_dir():
            raise UserError(f"--{flag.replace('_', '-')} {file}: there is no directory {file.parent}; create it first")
    if args.jobs_out is not None and args.jobs_out.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UserError(f"--jobs-out {args.jobs_out}: Parquet needs pyarrow: pip install pyarrow, or name a .csv")
    if args.plot is not None and args.plot.exists() and not args.plot.is_dir():
        raise UserError(f"--plot {args.plot} is a file; name a directory")


def write_jobs(args: argparse.Namespace, table: JobTable) -> None:
    """Write ``--schedule-out`` and ``--jobs-out``.

    Raises:
        UserError: a file cannot be written.
    """
    try:
        if args.schedule_out is not None:
            write_table(table, args.schedule_out, SCHEDULE)
        if args.jobs_out is not None and args.jobs_out.suffix == ".parquet":
            write_parquet(table, args.jobs_out)
        elif args.jobs_out is not None:
            write_table(table, args.jobs_out)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be written: {error.strerror or error}") from error
