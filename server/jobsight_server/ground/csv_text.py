"""CSV that a spreadsheet may open."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TextIO

_AT_ONCE = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Any]], times: Iterable[str] = ()) -> int:
    """Write a line of names, then the rows; return the number of rows.

    The columns in ``times`` are ISO 8601 in UTC. None is an empty cell. Names come from users: a text that a
    spreadsheet would take for a formula has an apostrophe before it.
    """
    writer = csv.writer(out)  # with \r\n, as it quotes only characters of its line end
    writer.writerow(columns)
    of_time, rows, count = set(times), iter(rows), 0
    while some := list(islice(rows, _AT_ONCE)):  # by column: most have nothing to change
        named = zip(columns, zip(*some, strict=True), strict=True)
        writer.writerows(zip(*(_cells(values, name in of_time) for name, values in named), strict=True))
        count += len(some)
    return count


def _cells(values: Sequence[Any], is_time: bool) -> Sequence[Any]:
    if is_time:
        return [value if value is None else f"{(_EPOCH + timedelta(seconds=value)).isoformat()}Z" for value in values]
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float} or (kinds == {str} and not any(map(_is_formula, {*values} - {None}))):
        return values
    return [write(value) if (write := _WRITE.get(type(value))) else value for value in values]


def _is_formula(value: str) -> bool:
    return value.startswith(_FORMULA)


def _text(value: str) -> str:
    return f"'{value}" if _is_formula(value) else value


_EPOCH = datetime(1970, 1, 1)
_WRITE: dict[type, Callable[[Any], str]] = {
    str: _text,
    bool: lambda value: str(value).lower(),
    list: lambda value: _text(" ".join(value)),
}
