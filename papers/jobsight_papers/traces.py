"""The traces of an experiment: files, and the finished jobs of databases, written to files that its processes read."""

from __future__ import annotations

import argparse
import atexit
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from jobsight_scheduler.workload.swf import Trace, read_swf, write_swf
from jobsight_server.command_line.trace_argument import name_of, open_trace, part_of
from jobsight_server.replay.machines import site_machines
from jobsight_server.replay.trace import site_trace


def trace_file(trace: str, args: argparse.Namespace) -> Path:
    """Return the file of ``trace``, which is read by its first lines; of a database, a new one that is deleted at exit.

    Raises:
        UserError: it cannot be read, or it is a file although ``args`` choose a part of a database.
    """
    part = part_of(args)
    with open_trace(trace, part) as connection:
        if connection is None:
            return Path(trace).resolve()
        directory = TemporaryDirectory(prefix="jobsight-trace-")
        atexit.register(directory.cleanup)
        file = Path(directory.name) / f"{name_of(trace)}.swf"
        found = site_trace(connection, part, site_machines(connection, part))
        finished = {name: column[found.ended] for name, column in found.columns.items()}
        write_swf(replace(found, columns=finished), file)
        return file


def read_trace(file: Path) -> Trace:
    """Return the jobs of a file in the Standard Workload Format.

    Raises:
        UserError: it cannot be read, or has no job.
    """
    with open_trace(str(file)):
        return read_swf(file)
