"""``jobsight export samples``: stored readings as Parquet files, for DuckDB, Spark, Dask and pandas."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from math import nextafter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from rich.console import Console
from rich.progress import Progress
from sqlalchemy import Connection, Engine, text

from jobsight_server.amounts import utc_day
from jobsight_server.command_line.arguments import add_settings, open_existing
from jobsight_server.errors import UserError
from jobsight_server.storage.sample_columns import UNKNOWN, SampleColumns
from jobsight_server.storage.samples import read_samples

DAY_S = 86400.0
_ROWS_AT_ONCE = 500_000  # of the readings of several nodes, in one row group
_WHOLE = ("net_in_bytes", "net_out_bytes", "ib_in_bytes", "ib_out_bytes")
_SECONDS = ("cpu_busy_s", "gap_s")

_NODES = text("SELECT id, cluster, name FROM nodes ORDER BY cluster, name")
_SPAN = text(
    "SELECT min(first), max(last) FROM ("
    "SELECT min(time) AS first, max(time) AS last FROM samples WHERE node_id = :node UNION ALL "
    "SELECT min(first_time), max(last_time) FROM sample_chunks WHERE node_id = :node) AS spans"
)

_Node = tuple[int, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("samples",), help="what to export: readings of nodes")
    parser.add_argument(
        "--parquet",
        type=Path,
        required=True,
        metavar="DIR",
        help="where to write a file for each cluster and day; those that are there already stay as they are",
    )
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster only")
    parser.add_argument("--node", metavar="PATTERN", help="of these nodes only, such as 'n[0-9]*'")
    parser.add_argument("--since", type=_day, metavar="DAY", help="first day in UTC, such as 2026-11-01")
    parser.add_argument("--until", type=_day, metavar="DAY", help="last day, included (default: yesterday)")
    add_settings(parser, "database")


def run(args: argparse.Namespace) -> int:
    """Writes the files; a day's appears once it is complete."""
    parquet = _parquet()
    engine = open_existing(args, "read")
    try:
        clusters = _nodes(engine, args.cluster, args.node)
        days = {name: _days(engine, nodes, args.since, args.until) for name, nodes in clusters.items()}
        files = {
            (name, day): args.parquet / f"cluster={quote(name, safe='')}" / f"day={_date(day)}" / "samples.parquet"
            for name in clusters
            for day in days[name]
        }
        new = {place: file for place, file in files.items() if not file.exists()}
        written = 0
        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("exporting", total=sum(len(clusters[name]) for name, _ in new))
            for (name, day), file in new.items():
                readings = _readings(engine, clusters[name], day, lambda: bar.advance(task))
                written += _write(parquet, file, readings)
    finally:
        engine.dispose()
    kept = len(files) - len(new)
    print(f"{written:,} readings in {len(new)} files" + (f"; {kept} files were there already" if kept else ""))
    return 0


def _parquet() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UserError("pyarrow is not installed: pip install 'jobsight[parquet]'") from error
    return pyarrow


def _day(value: str) -> int:
    try:
        return utc_day(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _nodes(engine: Engine, cluster: str | None, pattern: str | None) -> dict[str, list[_Node]]:
    """Number and name of the nodes asked for, by cluster.

    Raises:
        UserError: there is none.
    """
    found: dict[str, list[_Node]] = {}
    with engine.connect() as connection:
        for node_id, name_of_cluster, name in connection.execute(_NODES):
            if cluster in (None, name_of_cluster) and fnmatchcase(name, pattern or "*"):
                found.setdefault(name_of_cluster, []).append((node_id, name))
    if not found:
        asked = "".join(f" {what} {value!r}" for what, value in (("cluster", cluster), ("node", pattern)) if value)
        raise UserError(f"no agent has sent readings of{asked or ' any node'}")
    return found


def _days(engine: Engine, nodes: Sequence[_Node], since: int | None, until: int | None) -> range:
    """The whole days, counted from 1970-01-01, on which some of the nodes may have readings."""
    with engine.connect() as connection:
        spans = [connection.execute(_SPAN, {"node": node_id}).one() for node_id, _ in nodes]
    known = [(first // DAY_S, last // DAY_S) for first, last in spans if first is not None]
    if not known:
        return range(0)
    yesterday = int(time.time() // DAY_S) - 1
    first, last = int(min(first for first, _ in known)), int(max(last for _, last in known))
    return range(max(first, since or first), min(last, yesterday if until is None else until) + 1)


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()


def _readings(
    engine: Engine, nodes: Sequence[_Node], day: int, done: Callable[[], None]
) -> Iterator[tuple[str, SampleColumns]]:
    """Name and readings of each node that has some on ``day``."""
    for node_id, name in nodes:
        with engine.connect().execution_options(reading=True) as connection:
            columns = _of_day(connection, node_id, day * DAY_S)
        done()
        if len(columns):
            yield name, columns


def _of_day(connection: Connection, node_id: int, begin: float) -> SampleColumns:
    return read_samples(connection, node_id, begin, nextafter(begin + DAY_S, 0.0))


def _write(pyarrow: Any, file: Path, readings: Iterator[tuple[str, SampleColumns]]) -> int:
    """Writes ``file`` whole or not at all; returns the number of readings. Without any, there is no file."""
    fields = [("node", pyarrow.string()), ("time", pyarrow.timestamp("us", tz="UTC"))]
    fields += [(name, pyarrow.int64()) for name in (*_WHOLE, "memory_used_bytes")]
    fields += [(name, pyarrow.float64()) for name in _SECONDS]
    schema = pyarrow.schema(fields)
    unfinished = file.with_name(f".{file.name}.unfinished")
    count, waiting, writer = 0, [], None
    try:
        for name, columns in readings:
            if writer is None:
                file.parent.mkdir(parents=True, exist_ok=True)
                writer = pyarrow.parquet.ParquetWriter(unfinished, schema, compression="zstd")
            waiting.append(_table(pyarrow, schema, name, columns))
            count += len(columns)
            if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
                writer.write_table(pyarrow.concat_tables(waiting))
                waiting.clear()
        if writer is not None:
            if waiting:
                writer.write_table(pyarrow.concat_tables(waiting))
            writer.close()
            unfinished.replace(file)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}: choose another --parquet") from error
    finally:
        if writer is not None:
            writer.close()
            unfinished.unlink(missing_ok=True)
    return count


def _table(pyarrow: Any, schema: Any, name: str, columns: SampleColumns) -> Any:
    values = {
        "node": pyarrow.array([name] * len(columns), pyarrow.string()),
        "time": np.rint(columns.time * 1e6).astype("datetime64[us]"),
        **{whole: _whole(pyarrow, getattr(columns, whole)) for whole in _WHOLE},
        "memory_used_bytes": pyarrow.array(
            np.where(np.isnan(columns.memory_used_bytes), 0, columns.memory_used_bytes).astype(np.int64),
            mask=np.isnan(columns.memory_used_bytes),
        ),
        **{
            seconds: pyarrow.array(getattr(columns, seconds), mask=np.isnan(getattr(columns, seconds)))
            for seconds in _SECONDS
        },
    }
    return pyarrow.table(values, schema=schema)


def _whole(pyarrow: Any, totals: Any) -> Any:
    return pyarrow.array(totals, mask=totals == UNKNOWN)
