"""The argument TRACE: a recorded workload in a file or database."""

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
from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.command_line.answers import existing
from jobsight_server.command_line.help_text import metric_name
from jobsight_server.forecasts.workload import jobs_of_database
from jobsight_server.storage.clusters import chosen
from jobsight_server.storage.errors import UserError
from jobsight_server.storage.schema import jobs as jobs_table

_URLS = ("sqlite:", "postgresql:", "postgresql+psycopg:")
_SQLITE = b"SQLite format 3\0"


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add TRACE, ``--metric`` and ``--cluster``."""
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
    parser.add_argument(
        "--cluster", metavar="NAME", help="use only this cluster of a database (default: all clusters, as one site)"
    )


def read_jobs(trace: str, metric: str, cluster: str | None = None) -> Jobs:
    """Return the jobs of ``trace`` with a value of ``metric``.

    Raises:
        UserError: the trace does not exist, is not a trace, or has no value of the metric.
    """
    with explained(trace):
        jobs = _read(trace, metric, cluster)
    if not len(jobs):
        why = ", ".join(f"{reason.removeprefix(f'no {metric} value: ')} ({n:,})" for reason, n in jobs.skipped.items())
        raise UserError(f"{trace}: no job has a {metric} value: {why or 'there is none'}")
    return jobs


@contextmanager
def explained(trace: str) -> Iterator[None]:
    """Raise the errors of readers as ``UserError``, with what to do."""
    try:
        yield
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
        raise UserError(message if message.startswith(trace) else f"{trace}: {message}") from error


@contextmanager
def open_database_trace(trace: str, cluster: str | None = None) -> Iterator[Connection | None]:
    """Yield a connection that reads ``trace`` if it is a Jobsight database, None if it is another file.

    Raises:
        DatabaseError: an unusable database.
        UserError: ``cluster`` is one of a file.
        OSError: the file cannot be read.
    """
    url = trace
    if not trace.startswith(_URLS):
        if not _first_bytes(Path(trace)).startswith(_SQLITE):
            if cluster is not None:
                raise UserError(f"--cluster {cluster!r}: {trace} is not a Jobsight database, so it has no clusters")
            yield None
            return
        url = f"sqlite:///{trace}"
    with existing(argparse.Namespace(config=None, database=url), "read") as engine, engine.connect() as connection:
        yield connection


def cluster_of(connection: Connection, cluster: str | None) -> str:
    """Return ``cluster`` if it has jobs; with None, the only cluster with jobs.

    Raises:
        UserError: it has none, or several have.
    """
    return chosen(cluster, connection.scalars(select(jobs_table.c.cluster).distinct()).all(), "clusters with jobs")


def _read(trace: str, metric: str, cluster: str | None) -> Jobs:
    with open_database_trace(trace, cluster) as connection:
        if connection is not None:
            if cluster is not None:
                cluster_of(connection, cluster)
            return jobs_of_database(connection, metric, cluster, trace.rpartition("/")[2])
    file = Path(trace)
    if file.name.removesuffix(".gz").endswith(".csv"):
        return jobs_of_machines(file, metric)
    return jobs_of_trace(read_swf(file), metric, file.name)


def _first_bytes(file: Path) -> bytes:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        begin: bytes = stream.read(len(_SQLITE))
    return begin
