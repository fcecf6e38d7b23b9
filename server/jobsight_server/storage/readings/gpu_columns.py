"""Readings of a node's GPUs as columns, compressed: bytes in the table ``gpu_samples``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct


class GpuColumns(Struct, array_like=True):
    """One GPU: columns of equal length; None is unknown."""

    gpu: str
    busy_percent: list[int | None]
    used_bytes: list[int | None]
    total_bytes: int | None


_Readings = tuple[list[float], list[GpuColumns]]
_decoder = msgspec.msgpack.Decoder(_Readings)
_LEVEL = 6  # of zlib


def pack_gpus(time: Sequence[float], gpus: Sequence[GpuColumns]) -> bytes:
    """Return the readings at these times as bytes."""
    return zlib.compress(msgspec.msgpack.encode((time, gpus)), _LEVEL)


def load_gpus(packed: bytes) -> _Readings:
    """Parse the output of ``pack_gpus``: the times, and the columns of each GPU."""
    found: _Readings = _decoder.decode(zlib.decompress(packed))
    return found
