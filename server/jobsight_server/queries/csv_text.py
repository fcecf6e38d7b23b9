"""CSV for spreadsheets: the one place that writes a cell."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Any]], times: Iterable[str] = ()) -> int:
    """Write a line of names, then the rows; return the number of rows.

    The columns in ``times`` are ISO 8601 in UTC. None is an empty cell. Names come from users: a text that a
    spreadsheet would take for a formula has an apostrophe before it.
    """
    writer = csv.writer(out)  # with \r\n, as it quotes only characters of its line end
    writer.writerow(columns)
    of_time = [name in set(times) for name in columns]
    count = 0
    for row in rows:
        writer.writerow([_cell(value, is_time) for value, is_time in zip(row, of_time, strict=True)])
        count += 1
    return count


def _cell(value: Any, is_time: bool) -> object:
    if value is None:
        return ""
    if is_time:
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        value = " ".join(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
