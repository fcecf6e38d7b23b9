"""Tables, for schedulers without a parser: CSV with a header, or JSON lines (docs/operate/sources.md, Table).

A record is a line. The header names the columns, with their units; the columns of JSON are the names in each object.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from math import inf
from typing import Any, TypeVar, get_args

from jobsight_server.accounting.parsers.quantities import (
    CONTROL,
    LARGEST_BYTES,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    signed,
    text_field,
)
from jobsight_server.accounting.parsers.table_columns import (
    COLUMNS,
    DURATIONS,
    FACT,
    SIZES,
    TIMES,
    amount,
    field_of,
    header_of,
    is_json,
    json_object,
    parser_of_rows,
    places,
    processors,
    seconds_of_epoch,
)
from jobsight_server.accounting.runs import AccountingError, Failure, JobEvent, RunRecord
from jobsight_server.ground.facts import FoundFacts, found_facts

_KINDS = {"ended": "E", "requeued": "R", "running": "S"}
_WAITS = ("queued", "waiting")
_FAILURES: dict[str, Failure] = {name: name for name in get_args(Failure)}
_DELIMITERS = ",;\t"
_Choice = TypeVar("_Choice")
_SAME = ("group", "account", "name", "queue", "eligible", "exit_status", "failure")
"""Fields that a run has by the same names."""


def parser_of(beginning: bytes) -> Callable[[str], JobEvent]:
    """Return the parser for the lines of a file that begins with these bytes.

    Raises:
        AccountingError: its first line is neither a header nor JSON.
    """
    if is_json(beginning):
        return _event_of_json
    header = header_of(beginning)
    delimiter = max(_DELIMITERS, key=header.count)
    _check_columns([name.strip() for name in _row(header, delimiter)])
    return parser_of_rows(header, partial(_row, delimiter=delimiter), _event)


def _row(line: str, delimiter: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise AccountingError("not a line of CSV; a quoted value must end in its line", str(error)) from None
    return rows[0] if rows else []


def _event_of_json(line: str) -> JobEvent:
    found = json_object(line)
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise AccountingError(f"{name[:60]} is neither text nor a number", repr(value))
    _check_columns(list(found))
    return _event({name: _text_of(value) for name, value in found.items()})


def _text_of(value: str | float | None) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value).strip()


def _check_columns(names: Sequence[str]) -> None:
    fields: dict[str, str] = {}
    for name in names:
        if name not in COLUMNS and not name.startswith(FACT):
            nearest = get_close_matches(name, COLUMNS, n=1, cutoff=0.0)
            raise AccountingError("unknown column", f"{name[:40]}; nearest: {nearest[0]}")
        field = field_of(name)
        if field in fields:
            raise AccountingError("two columns for the same field", f"{fields[field]}, {name}")
        fields[field] = name
    for field in ("job_id", "user", "start"):
        if field not in fields:
            needed = [name for name in COLUMNS if field_of(name) == field]
            raise AccountingError("a column is missing", " or ".join(needed))


def _event(row: Mapping[str, str]) -> JobEvent:
    """Return the event in a row, by the names of its columns."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if CONTROL.search(value):
            raise AccountingError(f"control characters in {name}")
        if value and (read := _READ.get(field_of(name))) is not None:
            values[field_of(name)] = read(name, value)
    job_id, user, submitted, start, end = map(values.get, ("job_id", "user", "submitted", "start", "end"))
    if job_id is None or user is None:
        raise AccountingError(f"{'job_id' if job_id is None else 'user'} is missing")
    facts = found_facts(
        (name.removeprefix(FACT), value) for name, value in row.items() if value and name.startswith(FACT)
    )
    if start is None:
        if values.get("state") in _WAITS:
            if submitted is None or end is not None:
                raise AccountingError("waiting without the time of its submission, or with an end")
            run = _run({**values, "nodes": None, "start": inf}, facts)
            return JobEvent("Q", job_id, submitted, run, utc_s=submitted, submitted=submitted)
        if submitted is None:
            return JobEvent("N", job_id, end or 0.0)
        # The queue may have listed it.
        return JobEvent("D", job_id, end or submitted, utc_s=end or submitted, submitted=submitted)
    if end is not None and end < start:
        raise AccountingError("the end is before the start", f"{start:.0f} {end:.0f}")
    state = values.get("state", "running" if end is None else "ended")
    kind = _choice("state", state, _KINDS)
    if (kind == "S") != (end is None):
        raise AccountingError("running with an end, or ended without one", state)
    return JobEvent(kind, job_id, start if end is None else end, _run(values, facts))


def _run(values: Mapping[str, Any], facts: FoundFacts) -> RunRecord:
    given, start, end = values.get, values["start"], values.get("end")
    exec_host, held = given("nodes"), given("processors")
    nodes = {} if exec_host is None else places(exec_host, held)
    return RunRecord(
        user=values["user"],
        start=start,
        end=end,
        queued=given("submitted"),
        **{name: given(name) for name in _SAME},
        exec_host=exec_host,
        nodes=tuple(nodes.items()),
        processors=held or sum(nodes.values()) or None,
        requested_walltime_s=given("requested_walltime") or None,
        requested_memory_bytes=given("requested_memory"),
        used_cpu_s=given("used_cpu"),
        used_memory_bytes=given("used_memory"),
        used_walltime_s=None if end is None else end - start,
        facts=facts.text,
        dropped_facts=facts.dropped,
    )


def _bytes(column: str, text: str) -> int | None:
    return int(amount(column, text, LARGEST_BYTES)) or None


def _choice(column: str, text: str, choices: Mapping[str, _Choice]) -> _Choice:
    if text not in choices:
        raise AccountingError(f"{column} is not one of {', '.join(choices)}", text)
    return choices[text]


_READ: Mapping[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(("job_id", "user"), partial(text_field, longest=LONGEST_INDEXED)),
    **dict.fromkeys(("group", "account", "name", "queue", "state"), partial(text_field, longest=LONGEST_TEXT)),
    "nodes": partial(text_field, longest=LONGEST_TEXT * 16),
    **dict.fromkeys(TIMES, seconds_of_epoch),
    **dict.fromkeys(DURATIONS, partial(amount, largest=LONGEST_S)),
    **dict.fromkeys(SIZES, _bytes),
    "processors": processors,
    "exit_status": signed,
    "failure": partial(_choice, choices=_FAILURES),
}
"""Field -> what reads its value, given the column and the text."""
