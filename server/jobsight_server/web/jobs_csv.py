"""The list of jobs as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

from jobsight_server.queries.jobs import Run

COLUMNS = Run.__struct_fields__

_TIMES = frozenset({"start", "end", "created", "queued", "eligible", "recorded_at"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_of(runs: list[Run]) -> str:
    """A line of names, those of the fields of ``Run``, then one for each run.

    Times are ISO 8601 in UTC; no value is an empty cell. Names come from users: a text that a spreadsheet would take
    for a formula has an apostrophe before it.
    """
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(COLUMNS)
    out.writerows([_cell(name, getattr(run, name)) for name in COLUMNS] for run in runs)
    return text.getvalue()


def _cell(name: str, value: Any) -> object:
    if value is None:
        return ""
    if name in _TIMES:
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        value = " ".join(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
