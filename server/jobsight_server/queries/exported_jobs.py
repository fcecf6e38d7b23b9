"""Finished jobs for other programs: the request and use of each, its forecasts at submission, and CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TextIO

from sqlalchemy import Engine, select

from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs, profiles

_AT_ONCE = 1000

_OF_RUN = {
    "cluster": "text",
    "job_id": "text",
    "user": "text",
    "group": "text",
    "account": "text",
    "name": "text",
    "queue": "text",
    "submitted": "time",
    "start": "time",
    "end": "time",
    "suspended_s": "number",
    "processors": "whole",
    "gpus": "whole",
    "exit_status": "whole",
    "failure": "text",
    "requested_walltime_s": "number",
    "requested_memory_bytes": "whole",
    "memory_is_virtual": "flag",
    "requested_nodes": "text",
}
_UNITS = {
    "bandwidth": "bandwidth_bps_per_processor",
    "memory": "memory_bytes_per_processor",
    "cpu": "cpu_s_per_processor_s",
    "runtime": "runtime_s",
    "gpu_memory": "gpu_memory_bytes",
    "gpu_utilisation": "gpus_busy",
}
JOB_COLUMNS = {
    **_OF_RUN,
    **{
        f"{part}_{name}": kind
        for name in _UNITS.values()
        for part, kind in (
            ("used", "number"),
            ("used_more_than", "flag"),
            ("forecast", "number"),
            ("reserve", "number"),
        )
    },
}
"""Kind by name, as in docs/operate/operations.md."""


def finished_jobs(engine: Engine, part: Part) -> Generator[dict[str, Any]]:
    """Yield the ended runs of this part, in order of storing."""
    wanted = [jobs.c.state == "ended", jobs.c.end.is_not(None), *part.conditions]
    columns = [jobs.c.id, *(jobs.c[name] for name in _OF_RUN)]
    last = -1
    while True:
        query = select(*columns).where(*wanted, jobs.c.id > last).order_by(jobs.c.id).limit(_AT_ONCE)
        with engine.connect().execution_options(reading=True) as connection:
            rows = {row["id"]: dict(row) for row in connection.execute(query).mappings()}
            names = ("run_id", "metric", "value", "lower_bound", "forecast", "bound", "attempts")
            query = select(*(profiles.c[name] for name in names)).where(profiles.c.run_id.in_(rows))
            used = connection.execute(query).all() if rows else []
        for found in used:
            if (unit := _UNITS.get(found.metric)) is not None:
                rows[found.run_id] |= {
                    f"used_{unit}": found.value,
                    f"used_more_than_{unit}": found.lower_bound,
                    f"forecast_{unit}": found.forecast,
                    f"reserve_{unit}": next(iter(recommended_requests(found.bound, found.attempts)), None),
                }
        if not rows:
            return
        last = max(rows)
        for row in rows.values():
            yield {name: row.get(name) for name in JOB_COLUMNS}


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
