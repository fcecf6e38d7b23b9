"""``jobsight export jobs``: finished jobs for DuckDB, Spark, Dask and pandas, and for simulators."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from jobsight_scheduler.workload.swf import write_swf
from jobsight_server.command_line.answers import existing
from jobsight_server.command_line.arguments import add_settings
from jobsight_server.command_line.trace_argument import add_part, part_of
from jobsight_server.ground.csv_text import write_csv
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.exported_jobs import JOB_COLUMNS, finished_jobs
from jobsight_server.replay.machines import site_machines
from jobsight_server.replay.trace import site_trace
from jobsight_server.storage.clusters import chosen, stored_clusters
from jobsight_server.storage.named_files import check_output, whole_file

_ROWS = 100_000
"""Rows in memory at one time, and in one row group of a Parquet file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("jobs",), help="their requests, use and forecasts")
    parser.add_argument("file", type=Path, metavar="FILE", help="FILE.parquet, FILE.csv or FILE.swf")
    add_part(parser)
    parser.add_argument("--replace", action="store_true", help="overwrite an existing file")
    add_settings(parser, "database")


def run(args: argparse.Namespace) -> int:
    file: Path = args.file
    part = part_of(args)
    if file.suffix not in (".parquet", ".csv", ".swf"):
        raise UserError(f"{file}: name it FILE.parquet, FILE.csv, or FILE.swf for simulators")
    if file.suffix == ".parquet":
        _pyarrow()  # before anything is written
    if file.exists() and not args.replace:
        raise UserError(f"{file} exists; give --replace to overwrite it")
    check_output(file)
    with existing(args, "read", acts_elsewhere=True) as engine:
        with engine.connect() as connection:
            if args.cluster is not None:
                chosen(args.cluster, stored_clusters(connection), "known")
            is_trace = file.suffix == ".swf"
            trace = site_trace(connection, part, site_machines(connection, part)) if is_trace else None
        rows = finished_jobs(engine, part)
        with whole_file(file) as place, closing(rows):
            if trace is not None:
                write_swf(trace, place)
                count = len(trace)
            else:
                count = (_parquet if file.suffix == ".parquet" else _csv)(place, rows)
    print(f"{count:,} jobs in {file}")
    return 0


def _parquet(place: Path, rows: Iterator[Mapping[str, Any]]) -> int:
    """Write the rows, compressed with zstd; return their number."""
    pa, parquet = _pyarrow()
    types = {
        "time": pa.timestamp("us", tz="UTC"),
        "text": pa.string(),
        "whole": pa.int64(),
        "number": pa.float64(),
        "flag": pa.bool_(),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in JOB_COLUMNS.items()])
    count = 0
    with parquet.ParquetWriter(place, schema, compression="zstd") as file:
        while some := list(islice(rows, _ROWS)):
            columns = []
            for name, kind in JOB_COLUMNS.items():
                values = [row[name] for row in some]
                if kind == "time":
                    values = [None if value is None else round(value * 1e6) for value in values]
                columns.append(pa.array(values, type=types[kind]))
            file.write_table(pa.Table.from_arrays(columns, schema=schema))
            count += len(some)
    return count


def _csv(place: Path, rows: Iterator[Mapping[str, Any]]) -> int:
    def cells(row: Mapping[str, Any]) -> list[Any]:
        named = ((row[name], kind == "flag") for name, kind in JOB_COLUMNS.items())
        return [bool(value) if is_flag and value is not None else value for value, is_flag in named]

    times = [name for name, kind in JOB_COLUMNS.items() if kind == "time"]
    with place.open("w", newline="", encoding="utf-8", errors="backslashreplace") as text:
        return write_csv(text, tuple(JOB_COLUMNS), map(cells, rows), times)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UserError(
            f"Parquet needs pyarrow ({error.name} is not installed): pip install 'jobsight[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet
