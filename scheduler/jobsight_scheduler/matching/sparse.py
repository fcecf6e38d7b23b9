"""The arrays of a linear program in whole and other numbers, as they grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class SparseProgram:
    """Columns and rows with their bounds, and coefficients as (row, column, value)."""

    def __init__(self, upper: Floats) -> None:
        """With whole columns of at least 0 and at most ``upper``, and no rows."""
        self.columns, self.rows = len(upper), 0
        self._columns_upper: list[Floats] = [upper]
        self._columns_lower: list[Floats] = [np.zeros(len(upper))]
        self._columns_whole: list[Flags] = [np.ones(len(upper), dtype=np.bool_)]
        self._entries: list[tuple[Integers, Integers, Floats]] = []
        self._rows_lower: list[Floats] = []
        self._rows_upper: list[Floats] = []

    @property
    def coefficients(self) -> tuple[Integers, Integers, Floats]:
        """Row, column and value of each coefficient."""
        if not self._entries:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
        rows, columns, values = zip(*self._entries, strict=True)
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)

    @property
    def column_bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bound of each column."""
        return np.concatenate(self._columns_lower), np.concatenate(self._columns_upper)

    @property
    def row_bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bound of each row."""
        if not self._rows_lower:
            return np.empty(0), np.empty(0)
        return np.concatenate(self._rows_lower), np.concatenate(self._rows_upper)

    @property
    def is_whole(self) -> Flags:
        """Which columns have to be whole numbers."""
        return np.concatenate(self._columns_whole)

    def keep(self, costs: Floats, lower: float, upper: float) -> None:
        """Adds the row ``lower <= costs . columns <= upper``."""
        columns = np.flatnonzero(costs)
        self._add(np.zeros(len(columns)), columns, costs[columns], np.array([lower]), np.array([upper]))

    def _add(self, rows: NDArray[Any], columns: Integers, values: Floats, lower: Floats, upper: Floats) -> None:
        self._entries.append((rows.astype(np.int64) + self.rows, columns.astype(np.int64), values))
        self._rows_lower.append(lower)
        self._rows_upper.append(upper)
        self.rows += len(lower)

    def _new_columns(self, lower: Floats, upper: Floats, is_whole: bool) -> int:
        first = self.columns
        self._columns_lower.append(lower)
        self._columns_upper.append(upper)
        self._columns_whole.append(np.full(len(lower), is_whole))
        self.columns += len(lower)
        return first

    def _at_most(self, smaller: Integers, larger: Integers, times: Floats) -> None:
        """Rows ``smaller <= times * larger``."""
        count = len(smaller)
        rows = np.concatenate((np.arange(count), np.arange(count)))
        self._add(
            rows,
            np.concatenate((smaller, larger)),
            np.concatenate((np.ones(count), -times)),
            np.full(count, -np.inf),
            np.zeros(count),
        )
