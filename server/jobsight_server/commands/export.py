"""``jobsight export``: stored readings and finished jobs for DuckDB, Spark, Dask and pandas."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sqlalchemy import Engine

from jobsight_server.amounts import utc_day
from jobsight_server.command_line.arguments import add_settings, open_existing
from jobsight_server.command_line.parquet import ParquetFile, check_pyarrow, whole_file
from jobsight_server.errors import UserError
from jobsight_server.queries.csv_text import write_csv
from jobsight_server.queries.exported_jobs import JOB_COLUMNS, finished_jobs
from jobsight_server.queries.exported_readings import (
    DAY_S,
    READING_COLUMNS,
    StoredNode,
    day_text,
    readings_of_day,
    stored_nodes,
)
from jobsight_server.storage.clusters import listed, stored_clusters

FILE_NAME = "readings.parquet"
_ROWS = 5000

Part = tuple[Path, list[StoredNode], int]
"""A file, the nodes of its cluster, and its day."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    readings = what.add_parser("samples", help="readings of nodes as Parquet files, one for each cluster and day")
    readings.add_argument("--parquet", required=True, type=Path, metavar="DIR", help="write below this directory")
    readings.add_argument("--node", default="*", metavar="PATTERN", help="only nodes of such names, as 'n1*'")
    existing = readings.add_mutually_exclusive_group()
    existing.add_argument("--keep", action="store_true", help="leave out days whose file exists")
    finished = what.add_parser("jobs", help="finished jobs: what they requested and used, and what was forecast")
    finished.add_argument("file", type=Path, metavar="FILE", help="FILE.parquet or FILE.csv")
    for action, of, group in ((readings, "readings", existing), (finished, "jobs that ended", finished)):
        action.add_argument("--cluster", metavar="NAME", help="only this cluster (default: all)")
        action.add_argument("--since", type=_day, metavar="DAY", help=f"first day of {of}, such as 2026-11-01 (UTC)")
        action.add_argument("--until", type=_day, metavar="DAY", help="last day, included")
        group.add_argument("--replace", action="store_true", help="write existing files again")
        add_settings(action, "database")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(action.format_usage().strip() for action in (readings, finished))


def run(args: argparse.Namespace) -> int:
    if args.since is not None and args.until is not None and args.since > args.until:
        raise UserError("--since must not be after --until")
    engine = open_existing(args, "read")
    try:
        with engine.connect() as connection:
            if args.cluster is not None and args.cluster not in (known := stored_clusters(connection)):
                raise UserError(f"unknown cluster {args.cluster!r}; known: {listed(known)}")
        return _samples(engine, args) if args.what == "samples" else _jobs(engine, args)
    finally:
        engine.dispose()


def _samples(engine: Engine, args: argparse.Namespace) -> int:
    check_pyarrow()
    with engine.connect() as connection:
        found = stored_nodes(connection, args.cluster, args.node)
    if not found:
        raise UserError(
            f"no node with readings matches {args.node!r}" if args.node != "*" else "no readings are stored"
        )
    parts = list(_parts(found, args))
    there = [part for part in parts if part[0].exists()]
    if there and not (args.replace or args.keep):
        raise UserError(
            f"{there[0][0]} exists, and {len(there) - 1} more: give --keep to leave such days out, --replace to write "
            "them again, or another directory"
        )
    todo = [part for part in parts if part not in there] if args.keep else parts
    rows = files = 0
    with _bar() as progress:
        task = progress.add_task("days", total=len(todo))
        for part in todo:
            written = _write_day(engine, part, args.replace)
            rows, files = rows + written, files + (written > 0)
            progress.advance(task)
    kept = f"; {len(there)} were there and are left as they were" if args.keep and there else ""
    print(f"{rows:,} readings of {len(found):,} nodes in {files:,} files below {args.parquet}{kept}")
    return 0


def _parts(found: Iterable[StoredNode], args: argparse.Namespace) -> Iterator[Part]:
    for cluster, group in groupby(found, lambda node: node.cluster):
        of = list(group)
        first, last = min(node.first_day for node in of), max(node.last_day for node in of)
        first = first if args.since is None else max(first, args.since)
        last = last if args.until is None else min(last, args.until)
        for day in range(first, last + 1):
            # As Hive and Spark write names of partitions.
            place = args.parquet / f"cluster={quote(cluster, safe='')}" / f"day={day_text(day)}"
            yield place / FILE_NAME, [node for node in of if node.first_day <= day <= node.last_day], day


def _write_day(engine: Engine, part: Part, replace: bool) -> int:
    file, of, day = part
    with closing(readings_of_day(engine, of, day)) as tables:
        first = next(tables, None)
        if first is None:
            return 0
        rows = len(first["time"])
        with whole_file(file, replace=replace) as place, ParquetFile(place, READING_COLUMNS) as written:
            written.add_columns(first)
            for table in tables:
                written.add_columns(table)
                rows += len(table["time"])
    return rows


def _jobs(engine: Engine, args: argparse.Namespace) -> int:
    file: Path = args.file
    if file.suffix not in (".parquet", ".csv"):
        raise UserError(f"{file}: name it FILE.parquet or FILE.csv")
    if file.suffix == ".parquet":
        check_pyarrow()
    if file.exists() and not args.replace:
        raise UserError(f"{file} exists; give --replace to write it again")
    since = None if args.since is None else args.since * DAY_S
    until = None if args.until is None else (args.until + 1) * DAY_S
    rows = finished_jobs(engine, args.cluster, since, until)
    with whole_file(file, replace=args.replace) as place, closing(rows):
        count = (_parquet if file.suffix == ".parquet" else _csv)(place, rows)
    print(f"{count:,} jobs in {file}")
    return 0


def _parquet(place: Path, rows: Iterator[Mapping[str, Any]]) -> int:
    """Writes the rows; returns how many they are."""
    count = 0
    with ParquetFile(place, JOB_COLUMNS) as file:
        while some := list(islice(rows, _ROWS)):
            file.add_rows(some)
            count += len(some)
    return count


def _csv(place: Path, rows: Iterator[Mapping[str, Any]]) -> int:
    def cells(row: Mapping[str, Any]) -> list[Any]:
        named = ((row[name], kind == "flag") for name, kind in JOB_COLUMNS.items())
        return [bool(value) if is_flag and value is not None else value for value, is_flag in named]

    times = [name for name, kind in JOB_COLUMNS.items() if kind == "time"]
    with place.open("w", newline="", encoding="utf-8", errors="backslashreplace") as text:
        return write_csv(text, tuple(JOB_COLUMNS), map(cells, rows), times)


def _bar() -> Progress:
    columns = (TextColumn("export"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _day(text: str) -> int:
    try:
        return utc_day(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
