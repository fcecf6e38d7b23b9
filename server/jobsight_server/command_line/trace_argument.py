"""The argument TRACE: a recorded workload in a file or database, and the options that choose a part of a database."""

from __future__ import annotations

import argparse
import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.metrics import METRICS
from jobsight_scheduler.workload.backtest_jobs import jobs_of_machines, jobs_of_trace
from jobsight_scheduler.workload.swf import TraceError, read_swf
from jobsight_server.command_line.answers import existing
from jobsight_server.command_line.help_text import metric_name, read_by
from jobsight_server.forecasts.workload import jobs_of_database
from jobsight_server.ground.amounts import utc_span
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import Part, chosen
from jobsight_server.storage.named_files import other_kind
from jobsight_server.storage.schema import jobs as jobs_table

_SQLITE = b"SQLite format 3\0"
ALL = Part()


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add TRACE, ``--metric`` and the options of ``add_part``."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="workload: Standard Workload Format or CSV of virtual machines (plain or .gz), "
        "or a Jobsight database (file or URL)",
    )
    parser.add_argument(
        "--metric",
        type=metric_name,
        choices=tuple(METRICS),
        required=True,
        metavar="METRIC",
        help=f"one of {', '.join(METRICS)}",
    )
    add_part(parser)


def add_part(parser: argparse._ActionsContainer) -> None:
    """Add ``--cluster``, ``--since`` and ``--until``."""
    parser.add_argument("--cluster", metavar="NAME", help="use only this cluster of a database (default: all)")
    since = "only jobs that ended from then on: a date such as 2026-11-01, or a time such as 2026-11-01T08:30 (UTC)"
    parser.add_argument("--since", type=read_by(utc_span), metavar="TIME", help=since)
    until = "only jobs that ended before; a date includes its day"
    parser.add_argument("--until", type=read_by(utc_span), metavar="TIME", help=until)


def part_of(args: argparse.Namespace) -> Part:
    """Return the chosen part.

    Raises:
        UserError: it ends before it begins.
    """
    if args.since is not None and args.until is not None and args.since[0] >= args.until[1]:
        raise UserError("--since must not be after --until")
    return Part(args.cluster, args.since and args.since[0], args.until and args.until[1])


def read_jobs(trace: str, metric: str, part: Part = ALL) -> Jobs:
    """Return the jobs of ``trace`` with a value of ``metric``.

    Raises:
        UserError: the trace does not exist, is not a trace, or has no value of the metric.
    """
    with open_trace(trace, part) as connection:
        file = Path(trace)
        if connection is not None:
            jobs = jobs_of_database(connection, metric, part, name_of(trace))
        elif file.name.removesuffix(".gz").endswith(".csv"):
            jobs = jobs_of_machines(file, metric)
        else:
            jobs = jobs_of_trace(read_swf(file), metric, file.name)
    if not len(jobs):
        why = ", ".join(f"{reason.removeprefix(f'no {metric} value: ')} ({n:,})" for reason, n in jobs.skipped.items())
        raise UserError(f"{trace}: no job has a {metric} value: {why or 'there is none'}")
    return jobs


def name_of(trace: str) -> str:
    """Return the name of a file or of a database, without the parameters of its URL, which may hold a password."""
    return trace.partition("?")[0].rpartition("/")[2]


def cluster_of(connection: Connection, part: Part) -> str:
    """Return the chosen cluster, or the only one with jobs.

    Raises:
        UserError: it has none, or several have.
    """
    return chosen(part.cluster, connection.scalars(select(jobs_table.c.cluster).distinct()).all(), "clusters with jobs")


@contextmanager
def open_trace(trace: str, part: Part = ALL) -> Iterator[Connection | None]:
    """Yield a connection that reads ``trace`` if it is a Jobsight database, None if it is another file. Raise the
    errors of readers as ``UserError``, with what to do.
    """
    try:
        with _opened(trace) as connection:
            if connection is not None and part.cluster is not None:
                cluster_of(connection, part)
            flags = [f"--{name} {value!r}" for name, value in zip(part._fields, part, strict=True) if value is not None]
            if connection is None and flags:
                raise UserError(f"{flags[0]}: {trace} is not a Jobsight database, so it has no clusters and no dates")
            yield connection
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"{trace}: no such file; give a workload file, or a database as sqlite:///FILE") from error
    except OSError as error:
        raise UserError(f"{trace}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise UserError(f"{trace}: the compressed file is broken ({error}); download it again") from error
    except DBAPIError as error:
        raise UserError(f"{trace}: {str(error.orig).strip()}") from error
    except (ValueError, csv.Error) as error:  # the readers' errors for a file that is not a trace
        message = str(error)
        what = "; give a trace in the Standard Workload Format, or a Jobsight database" * isinstance(error, TraceError)
        raise UserError((message if message.startswith(trace) else f"{trace}: {message}") + what) from error


@contextmanager
def _opened(trace: str) -> Iterator[Connection | None]:
    url = trace
    if "://" not in trace:
        if kind := other_kind(Path(trace)):
            raise UserError(f"{trace}: it is {kind}, but is read several times: give a file")
        if not _first_bytes(Path(trace)).startswith(_SQLITE):
            yield None
            return
        url = f"sqlite:///{trace}"
    with existing(argparse.Namespace(config=None, database=url), "read") as engine, engine.connect() as connection:
        yield connection


def _first_bytes(file: Path) -> bytes:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        begin: bytes = stream.read(len(_SQLITE))
    return begin
