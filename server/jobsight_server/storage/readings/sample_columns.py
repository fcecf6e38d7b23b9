"""Readings of one node as columns of cumulative counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats as Floats
from jobsight_predictor.arrays import Integers as Integers

MODULUS = 2**62
"""Totals of counters are stored modulo this."""
MASK = MODULUS - 1

UNKNOWN = -1
"""Stands for a missing whole number; a missing float is NaN."""


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


NAMES = tuple(field.name for field in fields(SampleColumns))
TOTALS = ("net_in_bytes", "net_out_bytes", "cpu_busy_s", "gap_s", "ib_in_bytes", "ib_out_bytes")
WHOLE = tuple(name for name in TOTALS if name.endswith("_bytes"))
"""Totals of bytes."""


def difference(totals: NDArray[Any], before: Any) -> NDArray[Any]:
    """Return the rise of totals since ``before``; negative where they fell."""
    risen: NDArray[Any] = totals - before
    return risen if risen.dtype == np.float64 else (risen + MODULUS // 2) % MODULUS - MODULUS // 2


def _of_values(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if name not in WHOLE:
        return np.array(values, dtype=np.float64)
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)


NOTHING = SampleColumns.of_rows([])
