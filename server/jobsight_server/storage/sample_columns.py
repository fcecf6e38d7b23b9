"""Readings of one node as columns, and packed into bytes in two forms.

A batch is packed plainly: a zero, a bit for each column that says anything, and the columns' values of 8 bytes.

Where batches share a row, each column is the differences of its whole numbers, divided by their greatest common
divisor: the first bytes of all, then the second bytes and so on, deflated. Seconds count as microseconds. ``time`` and
``gap_s`` are restored exactly: if microseconds are too coarse, the bits of the doubles are the whole numbers.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MODULUS = 2**62
"""Totals of counters are stored modulo this."""
MASK = MODULUS - 1

UNKNOWN = -1
"""Stands for a missing total; a missing float is NaN."""

_MICRO = 1e6
_LEVEL = 6  # of zlib
_EXACT = ("time", "gap_s")


class Totals(msgspec.Struct, array_like=True):
    """Totals of a node's counters, in the order of ``TOTALS``: bytes modulo ``MODULUS``, seconds.

    ``ib_in`` and ``ib_out`` are the part of ``net_in`` and ``net_out`` on InfiniBand and Omni-Path.
    """

    net_in: int = 0
    net_out: int = 0
    cpu: float = 0.0
    gap: float = 0.0
    ib_in: int = 0
    ib_out: int = 0

    def __add__(self, other: Totals) -> Self:
        """Add the totals of ``other``; keep any further fields of ``self``."""
        return self._moved(other, 1)

    def __sub__(self, other: Totals) -> Self:
        """Subtract the totals of ``other``; keep any further fields of ``self``."""
        return self._moved(other, -1)

    def _moved(self, other: Totals, sign: int) -> Self:
        return msgspec.structs.replace(
            self,
            net_in=(self.net_in + sign * other.net_in) % MODULUS,
            net_out=(self.net_out + sign * other.net_out) % MODULUS,
            cpu=self.cpu + sign * other.cpu,
            gap=self.gap + sign * other.gap,
            ib_in=(self.ib_in + sign * other.ib_in) % MODULUS,
            ib_out=(self.ib_out + sign * other.ib_out) % MODULUS,
        )


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Columns of equal length, rising in time, named as in the table ``samples``; totals count modulo ``MODULUS``."""

    time: Floats
    net_in_bytes: Integers
    net_out_bytes: Integers
    cpu_busy_s: Floats
    memory_used_bytes: Floats
    gap_s: Floats
    ib_in_bytes: Integers
    ib_out_bytes: Integers

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Any]]) -> SampleColumns:
        """Return columns of rows that begin with the fields in this order; those of InfiniBand may be missing."""
        columns = list(zip(*rows, strict=True))[: len(NAMES)] if rows else [()] * len(NAMES)
        columns += [(None,) * len(rows)] * (len(NAMES) - len(columns))
        return cls(*(_of_values(name, column) for name, column in zip(NAMES, columns, strict=True)))

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, which: slice | NDArray[Any]) -> SampleColumns:
        return SampleColumns(*(getattr(self, name)[which] for name in NAMES))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the readings one by one, None where a value is unknown."""
        found = []
        for name in NAMES:
            column = getattr(self, name)
            known = column != UNKNOWN if name in WHOLE else ~np.isnan(column)
            values: list[Any] = column.tolist()
            found.append(values if known.all() else [v if k else None for v, k in zip(values, known, strict=True)])
        return list(zip(*found, strict=True))

    def between(self, since: float, until: float) -> slice:
        """Return the slice of the readings from ``since`` to before ``until``."""
        first, last = np.searchsorted(self.time, (since, until), "left")
        return slice(int(first), int(last))

    def pack(self) -> bytes:
        """Return all columns, compressed."""
        return _encode([_packed(name, getattr(self, name)) for name in NAMES])

    @classmethod
    def unpack(cls, packed: bytes) -> SampleColumns:
        """Restore what ``pack`` packed, with ``cpu_busy_s`` to the microsecond, or ``pack_plain``."""
        if packed[:1] == _PLAIN:
            return _of_plain([packed])
        return cls(*(_unpacked(name, column) for name, column in zip(NAMES, _decode(packed), strict=True)))

    def in_order(self) -> SampleColumns:
        """Return the readings in order of time; of several at one time the first."""
        if np.all(self.time[1:] > self.time[:-1]):
            return self
        return self[np.unique(self.time, return_index=True)[1]]


NAMES = tuple(field.name for field in fields(SampleColumns))
TOTALS = ("net_in_bytes", "net_out_bytes", "cpu_busy_s", "gap_s", "ib_in_bytes", "ib_out_bytes")
WHOLE = tuple(name for name in TOTALS if name.endswith("_bytes"))
"""Totals of bytes."""


def difference(totals: NDArray[Any], before: Any) -> NDArray[Any]:
    """Return the rise of totals since ``before``; negative where they fell."""
    risen: NDArray[Any] = totals - before
    return risen if risen.dtype == np.float64 else (risen + MODULUS // 2) % MODULUS - MODULUS // 2


_PLAIN = b"\0"  # MessagePack begins an array otherwise
_NOTHING = {name: UNKNOWN if name in WHOLE else 0.0 if name == "gap_s" else np.nan for name in NAMES}


def pack_plain(columns: Sequence[Sequence[Any] | None]) -> bytes:
    """Return columns in the order of ``NAMES`` as bytes; None stands for one without totals, or without a gap."""
    bits, parts = 0, []
    for number, (name, column) in enumerate(zip(NAMES, columns, strict=True)):
        if column is not None:
            bits |= 1 << number
            if None in column:
                missing = UNKNOWN if name in WHOLE else np.nan
                column = [missing if value is None else value for value in column]
            parts.append(array("q" if name in WHOLE else "d", column).tobytes())
    return _PLAIN + bytes((bits,)) + b"".join(parts)


def _of_plain(rows: Sequence[bytes]) -> SampleColumns:
    """Return the columns of plainly packed rows that say something in the same columns."""
    present = [name for number, name in enumerate(NAMES) if rows[0][1] & 1 << number]
    parts = [np.frombuffer(row, np.int64, offset=2).reshape(len(present), -1) for row in rows if len(row) > 2]
    values = np.concatenate(parts, axis=1) if parts else np.empty((len(present), 0), np.int64)
    found = {name: row if name in WHOLE else row.view(np.float64) for name, row in zip(present, values, strict=True)}
    return SampleColumns(
        *(found[name] if name in found else np.full(values.shape[1], _NOTHING[name]) for name in NAMES)
    )


def linked(rows: Sequence[tuple[bytes, bytes]]) -> SampleColumns:
    """Return the readings of a node's rows ``(link, packed)``, which follow one another; totals since the first one's
    first reading.

    ``link``: the totals from the first reading of the row before to its own.
    """
    if not rows:
        return NOTHING
    parts, lengths = [], []
    for form, some in groupby(
        (packed for _, packed in rows), lambda packed: packed[:2] if packed[:1] == _PLAIN else b""
    ):
        if form:
            plain = list(some)
            parts.append(_of_plain(plain))
            columns = form[1].bit_count()
            lengths += [(len(packed) - 2) // (8 * columns) for packed in plain]
        else:
            unpacked = [SampleColumns.unpack(packed) for packed in some]
            parts += unpacked
            lengths += map(len, unpacked)
    links = [(0, 0, 0.0, 0.0, 0, 0), *(decode_link(link) for link, _ in rows[1:])]
    found = {name: np.concatenate([getattr(part, name) for part in parts]) for name in NAMES}
    for name, steps in zip(TOTALS, zip(*links, strict=True), strict=True):
        if any(steps):
            found[name] = _plus(found[name], np.repeat(np.cumsum(np.array(steps, found[name].dtype)), lengths))
    return SampleColumns(**found)


def _plus(totals: NDArray[Any], base: NDArray[Any]) -> NDArray[Any]:
    sums: NDArray[Any] = totals + base
    return sums if sums.dtype == np.float64 else np.where(totals == UNKNOWN, UNKNOWN, sums & MASK)


encode_link = msgspec.msgpack.Encoder().encode
decode_link = msgspec.msgpack.Decoder(tuple[int, int, float, float, int, int]).decode


def _of_values(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if name not in WHOLE:
        return np.array(values, dtype=np.float64)
    if None in values:
        values = [UNKNOWN if value is None else value for value in values]
    return np.array(values, dtype=np.int64)


NOTHING = SampleColumns.of_rows([])


class _Column(msgspec.Struct, array_like=True):
    """A packed column: ``first`` plus ``step`` times the sums of the differences gives the values without a bit in
    ``unknown``.
    """

    is_bits: bool
    length: int
    unknown: bytes  # empty: none
    first: int
    step: int
    differences: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Column]).decode


def _packed(name: str, column: NDArray[Any]) -> _Column:
    unknown = column == UNKNOWN if name in WHOLE else np.isnan(column)
    whole, is_bits = _whole_numbers(name, column[~unknown])
    differences = np.diff(whole)
    step = int(np.gcd.reduce(differences)) or 1
    return _Column(
        is_bits,
        len(column),
        zlib.compress(np.packbits(unknown).tobytes(), _LEVEL) if unknown.any() else b"",
        int(whole[0]) if len(whole) else 0,
        step,
        _deflated(differences // step),
    )


def _unpacked(name: str, packed: _Column) -> NDArray[Any]:
    dtype = np.int64 if name in WHOLE else np.float64
    column = np.full(packed.length, UNKNOWN if name in WHOLE else np.nan, dtype=dtype)
    known = np.ones(packed.length, dtype=np.bool_)
    if packed.unknown:
        bits = np.frombuffer(zlib.decompress(packed.unknown), dtype=np.uint8)
        known = ~np.unpackbits(bits, count=packed.length).astype(np.bool_)
    count = int(np.count_nonzero(known))
    if count:
        whole = np.full(count, packed.first, dtype=np.int64)
        whole[1:] += packed.step * np.cumsum(_inflated(packed.differences))
        scaled = whole if name in WHOLE else whole.view(np.float64) if packed.is_bits else whole / _scale(name)
        column[known] = scaled
    return column


def _whole_numbers(name: str, values: NDArray[Any]) -> tuple[Integers, bool]:
    """Return the values as whole numbers, and whether these are the doubles' bits."""
    if name in WHOLE:
        return values, False
    whole = np.rint(values * _scale(name))
    is_exact = name not in _EXACT or np.array_equal(whole / _scale(name), values)
    if is_exact and np.all(np.abs(whole) < MODULUS):
        return whole.astype(np.int64), False
    return values.view(np.int64), True


def _scale(name: str) -> float:
    return 1.0 if name == "memory_used_bytes" else _MICRO


def _deflated(differences: Integers) -> bytes:
    # With the sign as the lowest bit, small ones of either sign have zeros in their upper bytes.
    signed = (differences << 1) ^ (differences >> 63)
    return zlib.compress(signed.view(np.uint8).reshape(-1, 8).T.tobytes(), _LEVEL)


def _inflated(deflated: bytes) -> Integers:
    planes = np.frombuffer(zlib.decompress(deflated), dtype=np.uint8).reshape(8, -1)
    signed = np.ascontiguousarray(planes.T).view(np.uint64).ravel()
    differences: Integers = (signed >> np.uint64(1)).view(np.int64) ^ -(signed & np.uint64(1)).view(np.int64)
    return differences
