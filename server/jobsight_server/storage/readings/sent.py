"""Readings as a node sent them, packed into bytes: a row for each batch, or for several.

Seconds are doubles, NaN where unknown: time, processors' busy time, time since the boot, and seconds without counters
(``gap_s``, of earlier releases alone). Whole numbers are memory in use and the counters in and out of each interface;
all ones, as a broken device answers, stand for an unknown one.

The first byte is the form, the second has a bit for each column of seconds. A batch is packed plainly: doubles, the
first of each column of whole numbers, and their rises in four bytes; where these do not fit, whole numbers of eight.
Where batches share a row, the rises of all columns are deflated: their first bytes, then their second bytes and so on.
Seconds count as microseconds, or by their bits where these are too coarse; ``time`` and ``gap_s`` are restored exactly.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import groupby
from math import nan
from operator import sub
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from jobsight_server.storage.readings.sample_columns import Floats, Integers

SECONDS = 4
"""Columns of seconds: time, busy time, time since the boot, gap."""

_ABSENT = np.array([[nan], [nan], [nan], [0.0]])
_ALL_ONES = 2**64 - 1
_WIDE, _NARROW, _DEFLATED = range(3)
_LEVEL = 6  # of zlib
_MICRO = 1e6
_COARSE = np.array([[0.0], [1 / _MICRO], [1 / _MICRO], [0.0]])  # what rounding may change
_LARGEST = 2.0**62


class BatchInterface(Struct, frozen=True):
    """An interface of a node; ``infiniband`` and ``opa`` count words of four bytes."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    kind: Literal["ethernet", "infiniband", "opa", "other"]
    width_bits: Literal[32, 64]
    speed_bps: Annotated[float, Meta(gt=0, le=1e15)] | None = None


INFINIBAND = ("infiniband", "opa")
interfaces_of = msgspec.json.Decoder(list[BatchInterface]).decode


def pack(seconds: Sequence[Sequence[float | None] | None], whole: Sequence[Sequence[int | None]]) -> bytes:
    """Return a batch's columns as bytes; None stands for an unknown value, or a column of them."""
    bits, doubles = 0, list[float]()
    for number, column in enumerate(seconds):
        if column is not None:
            bits |= 1 << number
            doubles += [nan if value is None else value for value in column] if None in column else column  # type: ignore[arg-type]
    try:
        firsts = [column[0] for column in whole]
        rises = [rise for column in whole for rise in map(sub, column[1:], column)]
        layout = f"<2B{len(doubles)}d{len(firsts)}Q{len(rises)}i"
        return struct.pack(layout, _NARROW, bits, *doubles, *firsts, *rises)
    except (TypeError, struct.error, IndexError):  # an unknown value, a large rise, no readings
        numbers = [_ALL_ONES if value is None else value for column in whole for value in column]
        return struct.pack(f"<2B{len(doubles)}d{len(numbers)}Q", _WIDE, bits, *doubles, *numbers)


def deflate(seconds: Floats, whole: Integers) -> bytes:
    """Return the columns of several batches, as ``unpack`` returns them, as bytes."""
    is_absent = (seconds == _ABSENT) | (np.isnan(seconds) & np.isnan(_ABSENT))
    present: list[int] = np.flatnonzero(~is_absent.all(axis=1)).tolist()
    found = seconds[present]
    micro = np.rint(found * _MICRO)
    is_exact = (np.abs(micro / _MICRO - found) <= _COARSE[present]) & (np.abs(micro) < _LARGEST)
    is_bits: NDArray[np.bool_] = ~np.all(is_exact, axis=1)
    numbers = np.where(is_bits[:, None], 0.0, micro).astype(np.int64)
    numbers[is_bits] = found[is_bits].view(np.int64)
    rises = np.diff(np.concatenate([numbers, whole]), axis=1, prepend=0)
    # With the sign as the lowest bit, small ones of either sign have zeros in their upper bytes.
    signed = (rises << 1) ^ (rises >> 63)
    planes = signed.view(np.uint8).reshape(*signed.shape, 8).transpose(0, 2, 1)
    bits = [sum(1 << number for number in numbers) for numbers in (present, np.flatnonzero(is_bits).tolist())]
    return bytes((_DEFLATED, *bits)) + zlib.compress(planes.tobytes(), _LEVEL)


def unpack(rows: Sequence[bytes], interfaces: int) -> tuple[Floats, Integers]:
    """Return the columns of rows that follow one another: of seconds, shape (4, n), and of whole numbers, shape
    (1 + 2 * interfaces, n): memory, then in and out of each interface."""
    parts = [
        _unpacked(form, bits, list(some), 1 + 2 * interfaces)
        for (form, bits, _), some in groupby(rows, lambda row: (row[0], row[1], len(row)))
    ]
    seconds, whole = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
    return seconds, whole


def _unpacked(form: int, bits: int, rows: Sequence[bytes], width: int) -> tuple[Floats, Integers]:
    """Return the columns of rows of one form and length."""
    present = [number for number in range(SECONDS) if bits & 1 << number]
    if form == _DEFLATED:
        parts = [_inflated(row, len(present), width) for row in rows]
        found, whole = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
    else:
        size, narrow = len(rows[0]) - 2, form == _NARROW
        firsts, of_one = (width, 4 * width) if narrow else (0, 8 * width)
        n = (size - 8 * firsts + 4 * firsts) // (8 * len(present) + of_one)
        layout = np.dtype([
            ("form", "V2"), ("seconds", "<f8", (len(present), n)), ("first", "<i8", (firsts, 1)),
            ("rises", "<i4", (width, n - 1)) if narrow else ("numbers", "<i8", (width, n)),
        ])  # fmt: skip
        table = np.frombuffer(b"".join(rows), layout)
        numbers = (
            np.concatenate([table["first"], table["rises"]], axis=2).cumsum(axis=2) if narrow else table["numbers"]
        )
        found, whole = (np.concatenate(list(columns), axis=1) for columns in (table["seconds"], numbers))
    seconds = np.repeat(_ABSENT, whole.shape[1], axis=1)
    seconds[present] = found
    return seconds, whole


def _inflated(row: bytes, present: int, width: int) -> tuple[Floats, Integers]:
    numbers = inflate(row[3:], present + width).cumsum(axis=1)
    is_bits = [bool(row[2] & 1 << number) for number in range(present)]
    seconds = numbers[:present] / _MICRO
    seconds[is_bits] = numbers[:present][is_bits].view(np.float64)
    return seconds, numbers[present:]


def inflate(deflated: bytes, columns: int) -> Integers:
    """Return the rises of this many columns, shape (columns, n)."""
    planes = np.frombuffer(zlib.decompress(deflated), np.uint8).reshape(columns, 8, -1)
    signed = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(np.uint64)[..., 0]
    rises: Integers = (signed >> np.uint64(1)).view(np.int64) ^ -(signed & np.uint64(1)).view(np.int64)
    return rises


SentRow = tuple[int, int, str, bytes, bytes]
"""Of a stored row: node, boot, the boot's name and interfaces, packed columns."""
