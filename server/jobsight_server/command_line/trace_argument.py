"""The argument TRACE: a recorded workload in a file or database."""

from __future__ import annotations

import argparse
import csv
import gzip
import zlib
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.metrics import METRICS
from jobsight_scheduler.workload.backtest_jobs import jobs_of_machines, jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.command_line.arguments import open_existing
from jobsight_server.errors import UserError
from jobsight_server.forecasts.workload import jobs_of_database

_URLS = ("sqlite:", "postgresql:", "postgresql+psycopg:")
_SQLITE = b"SQLite format 3\0"


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Adds TRACE, ``--metric`` and ``--cluster``."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="workload: Standard Workload Format or CSV of virtual machines (plain or .gz), "
        "or a Jobsight database (file or URL)",
    )
    parser.add_argument("--metric", choices=tuple(METRICS), required=True, help="metric to forecast")
    parser.add_argument(
        "--cluster", metavar="NAME", help="use only this cluster of a database (default: all clusters, as one site)"
    )


def read_jobs(trace: str, metric: str, cluster: str | None = None) -> Jobs:
    """The jobs of ``trace`` with a value of ``metric``.

    Raises:
        UserError: the trace does not exist, is not a trace, or has no value of the metric.
    """
    try:
        jobs = _read(trace, metric, cluster)
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
        told = str(error)
        raise UserError(told if told.startswith(trace) else f"{trace}: {told}") from error
    if not len(jobs):
        found = ", ".join(f"{count} {reason}" for reason, count in jobs.skipped.items()) or "nothing at all"
        raise UserError(f"{trace}: no job has a {metric} value; found: {found}")
    return jobs


def _read(trace: str, metric: str, cluster: str | None) -> Jobs:
    if trace.startswith(_URLS):
        return _of_database(trace, metric, cluster, trace.rpartition("/")[2])
    file = Path(trace)
    begin = _first_bytes(file)
    if begin.startswith(_SQLITE):
        return _of_database(f"sqlite:///{file}", metric, cluster, file.name)
    if cluster is not None:
        raise UserError(f"--cluster {cluster!r}: {trace} is not a Jobsight database, so it has no clusters")
    if file.name.removesuffix(".gz").endswith(".csv"):
        return jobs_of_machines(file, metric)
    return jobs_of_trace(read_swf(file), metric, file.name)


def _of_database(url: str, metric: str, cluster: str | None, name: str) -> Jobs:
    engine = open_existing(argparse.Namespace(config=None, database=url), "read")
    try:
        with engine.connect() as connection:
            return jobs_of_database(connection, metric, cluster, name)
    finally:
        engine.dispose()


def _first_bytes(file: Path) -> bytes:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        begin: bytes = stream.read(len(_SQLITE))
    return begin
