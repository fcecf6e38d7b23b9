"""Readings of the cgroup of a job on a node, as columns: text in the table ``job_samples``."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode

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
_LEVEL = 6  # of zlib


def dump_columns(columns: JobColumns) -> str:
    """Return ``columns`` as JSON text."""
    return msgspec.json.encode(columns).decode()


def pack_columns(columns: JobColumns) -> str:
    """Return ``columns`` as text of a third of the length: JSON, compressed, in base64."""
    return b64encode(zlib.compress(msgspec.json.encode(columns), _LEVEL)).decode()


def load_columns(text: str) -> JobColumns:
    """Parse the output of ``dump_columns`` or ``pack_columns``."""
    return _decoder.decode(text if text.startswith("{") else zlib.decompress(b64decode(text)))
