"""The readings of one job's cgroup on one node as a batch brought them: one row, its columns as JSON."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class JobColumns(Struct):
    """Columns of equal length. ``cpu_s`` counts since the cgroup was made; memory is in bytes, None is unknown.

    ``used`` is anonymous and shared memory, ``cache`` the page cache.
    """

    time: list[float]
    cpu_s: list[float | None]
    used: list[int | None]
    cache: list[int | None]


_decoder = msgspec.json.Decoder(JobColumns)


def dump_columns(columns: JobColumns) -> str:
    """``columns`` as JSON text."""
    return msgspec.json.encode(columns).decode()


def load_columns(text: str) -> JobColumns:
    """Parses the output of ``dump_columns``."""
    return _decoder.decode(text)
