"""Readings of one node as columns, and packed into bytes.

Packed, each column is the differences of its whole numbers, divided by their greatest common divisor: the first bytes
of all, then the second bytes and so on, deflated. Seconds count as microseconds. ``time`` and ``gap_s`` are restored
exactly: if microseconds are too coarse, the bits of the doubles are the whole numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MODULUS = 2**62
"""Totals of counters are stored modulo this."""
MASK = MODULUS - 1  # for ``&``, which SQLite and PostgreSQL both have

UNKNOWN = -1
"""Stands for a missing total; a missing float is NaN."""

_MICRO = 1e6
_LEVEL = 6  # of zlib
_EXACT = ("time", "gap_s")


class Totals(msgspec.Struct, omit_defaults=True):
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
        return msgspec.structs.replace(
            self,
            net_in=(self.net_in + other.net_in) % MODULUS,
            net_out=(self.net_out + other.net_out) % MODULUS,
            cpu=self.cpu + other.cpu,
            gap=self.gap + other.gap,
            ib_in=(self.ib_in + other.ib_in) % MODULUS,
            ib_out=(self.ib_out + other.ib_out) % MODULUS,
        )

    def __sub__(self, other: Totals) -> Totals:
        return Totals(
            (self.net_in - other.net_in) % MODULUS,
            (self.net_out - other.net_out) % MODULUS,
            self.cpu - other.cpu,
            self.gap - other.gap,
            (self.ib_in - other.ib_in) % MODULUS,
            (self.ib_out - other.ib_out) % MODULUS,
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

    def between(self, since: float, until: float) -> slice:
        """Return the slice of the readings from ``since`` to before ``until``."""
        first, last = np.searchsorted(self.time, (since, until), "left")
        return slice(int(first), int(last))

    def plus(self, where: slice, amounts: Totals) -> SampleColumns:
        """Return the columns with ``amounts`` added to the totals at ``where``."""
        changed: dict[str, Any] = {}
        for name, amount in zip(TOTALS, msgspec.structs.astuple(amounts), strict=True):
            if amount:
                column = changed[name] = getattr(self, name).copy()
                part = column[where]
                if column.dtype == np.int64:
                    part[:] = np.where(part == UNKNOWN, UNKNOWN, (part + amount) & MASK)
                else:
                    part += amount
        return replace(self, **changed)

    def pack(self) -> bytes:
        """Return all columns, compressed."""
        return _encode([_packed(name, getattr(self, name)) for name in NAMES])

    @classmethod
    def unpack(cls, packed: bytes) -> SampleColumns:
        """Restore the argument of ``pack``; ``cpu_busy_s`` to the microsecond."""
        return cls(*(_unpacked(name, column) for name, column in zip(NAMES, _decode(packed), strict=True)))


NAMES = tuple(field.name for field in fields(SampleColumns))
TOTALS = ("net_in_bytes", "net_out_bytes", "cpu_busy_s", "gap_s", "ib_in_bytes", "ib_out_bytes")
WHOLE = tuple(name for name in TOTALS if name.endswith("_bytes"))
"""Totals of bytes."""


def difference(totals: NDArray[Any], before: Any) -> NDArray[Any]:
    """Return the rise of totals since ``before``; negative where they fell."""
    risen: NDArray[Any] = totals - before
    return risen if risen.dtype == np.float64 else (risen + MODULUS // 2) % MODULUS - MODULUS // 2


def joined(parts: Iterable[SampleColumns]) -> SampleColumns:
    """Return the readings of all ``parts``, in order of time; at equal times that of the earlier part."""
    parts = list(parts) or [NOTHING]
    together = parts[0]
    if len(parts) > 1:
        together = SampleColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))
    if np.all(together.time[1:] > together.time[:-1]):
        return together
    return together[np.unique(together.time, return_index=True)[1]]


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
