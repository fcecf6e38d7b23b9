"""Running a simulation with progress, and its output files: tables of its jobs, plots."""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from typing import Protocol

from rich.console import Console
from rich.progress import Progress

from jobsight_scheduler.table import SCHEDULE, JobTable, write_parquet, write_table
from jobsight_server.storage.errors import UserError

EVENTS_AT_ONCE = 2_000
"""Events of a simulation between two updates of its progress."""


class Steps(Protocol):
    """A simulation, of any machine."""

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""

    def advance(self, events: int) -> bool:
        """Handle the next ``events`` events, or as many as there are; return whether all jobs have ended."""


def carry_out(simulation: Steps, name: str, jobs: int) -> float:
    """Run the simulation of so many ``jobs`` to its end; return the CPU seconds used, progress excluded."""
    spent, done = 0.0, False
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=jobs)
        while not done:
            began = time.process_time()
            done = simulation.advance(EVENTS_AT_ONCE)
            spent += time.process_time() - began
            progress.update(task, completed=simulation.ended)
    return spent


def check_outputs(args: argparse.Namespace) -> None:
    """Check now what would otherwise fail after minutes.

    Raises:
        UserError: a requested output cannot be written.
    """
    for flag in ("schedule_out", "jobs_out"):
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
