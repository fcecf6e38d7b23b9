"""Parquet files by pyarrow, which is installed only where it is wanted, and files that are written whole or not at all.

Kinds of columns: ``time`` (epoch seconds, written as UTC timestamps of microseconds), ``text``, ``whole`` (64 bits),
``number`` and ``flag``; any may be null.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_server.errors import UserError

_GROUP_ROWS = 250_000
"""Rows that are held in memory, and written as one row group."""


@contextmanager
def whole_file(file: Path, *, replace: bool) -> Iterator[Path]:
    """A temporary path beside ``file``, which becomes ``file`` once the block has ended without an error.

    Raises:
        UserError: ``file`` exists and is not to be replaced, or the directory cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Readers of directories skip names that begin with a dot.
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error
    try:
        os.fchmod(handle, 0o666 & ~_umask())
        os.close(handle)
        yield Path(name)
        _onto_disk(Path(name))
        if replace:
            Path(name).replace(file)
        else:
            os.link(name, file)
        _onto_disk(file.parent)
    except FileExistsError as error:
        raise UserError(f"{file} exists; give --replace to write it again") from error
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


class ParquetFile:
    """Rows of one file, written in groups, compressed with zstd."""

    def __init__(self, file: Path, kinds: Mapping[str, str]) -> None:
        pa, self._parquet = _pyarrow()
        types = {
            "time": pa.timestamp("us", tz="UTC"),
            "text": pa.string(),
            "whole": pa.int64(),
            "number": pa.float64(),
            "flag": pa.bool_(),
        }
        self._pa, self._kinds = pa, kinds
        self._schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
        self._writer = self._parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[Any] = []
        self._rows = 0

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._writer.close()

    def add_columns(self, columns: Mapping[str, Any]) -> None:
        """Arrays of equal length, whose masked values become null, or one value for all rows."""
        length = max(len(column) for column in columns.values() if isinstance(column, np.ndarray))
        arrays = [self._array(name, columns[name], length) for name in self._kinds]
        self._add(self._pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def add_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Values by column; times in epoch seconds."""
        arrays = []
        for name, kind in self._kinds.items():
            values = [row[name] for row in rows]
            if kind == "time":
                values = [None if value is None else round(value * 1e6) for value in values]
            arrays.append(self._pa.array(values, type=self._schema.field(name).type))
        self._add(self._pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _array(self, name: str, column: Any, length: int) -> Any:
        kind = self._schema.field(name).type
        if not isinstance(column, np.ndarray):
            return self._pa.repeat(self._pa.scalar(column, type=kind), length)
        mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
        values = np.asarray(column)
        if self._kinds[name] == "time":
            values = np.rint(values * 1e6).astype("datetime64[us]")
        return self._pa.array(values, type=kind, mask=mask)

    def _add(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = self._pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=_GROUP_ROWS)
        self._waiting, self._rows = [], 0


def check_pyarrow() -> None:
    """Checks early for what would otherwise be missed only when writing.

    Raises:
        UserError: pyarrow is not installed.
    """
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UserError(
            f"Parquet needs pyarrow ({error.name} is not installed): pip install 'jobsight[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _onto_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
