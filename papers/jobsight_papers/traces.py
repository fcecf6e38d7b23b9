"""The traces of an experiment: files, and the finished jobs of databases, written to files that its processes read."""

from __future__ import annotations

import argparse
import atexit
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from jobsight_scheduler.workload.swf import Trace, read_swf, write_swf
from jobsight_server.command_line.trace_argument import name_of, open_trace, part_of
from jobsight_server.ground.errors import UserError
from jobsight_server.replay.machines import site_machines
from jobsight_server.replay.trace import site_trace


def known_traces() -> list[Path]:
    """Return the traces in the directory ``JOBSIGHT_TRACES``; none without one."""
    directory = os.environ.get("JOBSIGHT_TRACES")
    return sorted(Path(directory).glob("*.swf*")) if directory is not None else []


def named_trace(name: str, args: argparse.Namespace) -> Path:
    """Return ``trace_file`` of a path, a URL, or the beginning of a name in ``JOBSIGHT_TRACES``, such as KTH-SP2.

    Raises:
        UserError: there is none or more than one, or it cannot be read.
    """
    if "://" in name or Path(name).exists():
        return trace_file(name, args)
    found = [file for file in known_traces() if file.name.startswith(name)]
    if len(found) != 1:
        raise UserError(
            f"{name}: no such file, and {len(found) or 'no'} traces of the directory JOBSIGHT_TRACES begin like this"
        )
    return trace_file(str(found[0]), args)


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
