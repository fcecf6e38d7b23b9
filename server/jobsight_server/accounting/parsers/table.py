"""Tables, for schedulers without a parser: CSV with a header, or JSON lines (docs/operate/sources.md, Table).

A record is a line. The header names the columns, with their units; the columns of JSON are the names in each object.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from math import inf
from typing import Any, TypeVar, get_args

import msgspec

from jobsight_server.accounting.parsers.quantities import (
    INT32,
    LARGEST_BYTES,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    text_field,
)
from jobsight_server.accounting.parsers.table_columns import (
    COLUMNS,
    FACT,
    amount,
    field_of,
    header_of,
    parser_of_rows,
    places,
    seconds_of_epoch,
    whole,
)
from jobsight_server.accounting.runs import AccountingError, Failure, JobEvent, RunRecord
from jobsight_server.accounting.text import BYTE_ORDER_MARK
from jobsight_server.storage.facts import found_facts

_KINDS = {"ended": "E", "requeued": "R", "running": "S"}
_WAITS = ("queued", "waiting")
_FAILURES: dict[str, Failure] = {name: name for name in get_args(Failure)}
_DELIMITERS = ",;\t"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_Choice = TypeVar("_Choice")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def parser_of(beginning: bytes) -> Callable[[str], JobEvent]:
    """Return the parser for the lines of a file that begins with these bytes.

    Raises:
        AccountingError: its first line is neither a header nor JSON.
    """
    if beginning.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"{":
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
    try:
        found = _decode(line)
    except msgspec.MsgspecError as error:
        raise AccountingError("not a JSON object", str(error)) from None
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
    values = {field_of(name): (name, value) for name, value in row.items() if value}
    for name, value in values.values():
        if _CONTROL.search(value):
            raise AccountingError(f"control characters in {name}")
    job_id = _text(values, "job_id", LONGEST_INDEXED)
    user = _text(values, "user", LONGEST_INDEXED)
    if job_id is None or user is None:
        raise AccountingError(f"{'job_id' if job_id is None else 'user'} is missing")
    submitted, start, end = (_time(values, field) for field in ("submitted", "start", "end"))
    if start is None:
        if values.get("state", ("", ""))[1] in _WAITS:
            if submitted is None or end is not None:
                raise AccountingError("waiting without the time of its submission, or with an end")
            run = _run(values, user, inf, None)
            return JobEvent("Q", job_id, submitted, run, utc_s=submitted, submitted=submitted)
        if submitted is None:
            return JobEvent("N", job_id, end or 0.0)
        # The queue may have listed it.
        return JobEvent("D", job_id, end or submitted, utc_s=end or submitted, submitted=submitted)
    if end is not None and end < start:
        raise AccountingError("the end is before the start", f"{start:.0f} {end:.0f}")
    state = _choice(values, "state", _KINDS) or ("S" if end is None else "E")
    if (state == "S") != (end is None):
        raise AccountingError("running with an end, or ended without one", values["state"][1])
    return JobEvent(state, job_id, start if end is None else end, _run(values, user, start, end))


def _run(values: Mapping[str, tuple[str, str]], user: str, start: float, end: float | None) -> RunRecord:
    exec_host = None if start == inf else _text(values, "nodes", LONGEST_TEXT * 16)
    processors = _count(values, "processors")
    nodes = {} if exec_host is None else places(exec_host, processors)
    failure = _choice(values, "failure", _FAILURES)
    facts = found_facts((name.removeprefix(FACT), value) for name, value in values.values() if name.startswith(FACT))
    return RunRecord(
        user=user,
        start=start,
        end=end,
        group=_text(values, "group", LONGEST_TEXT),
        account=_text(values, "account", LONGEST_TEXT),
        name=_text(values, "name", LONGEST_TEXT),
        queue=_text(values, "queue", LONGEST_TEXT),
        queued=_time(values, "submitted"),
        eligible=_time(values, "eligible"),
        exec_host=exec_host,
        nodes=tuple(nodes.items()),
        processors=processors or sum(nodes.values()) or None,
        exit_status=_exit_status(values),
        requested_walltime_s=_amount(values, "requested_walltime", LONGEST_S) or None,
        requested_memory_bytes=_bytes(values, "requested_memory"),
        used_cpu_s=_amount(values, "used_cpu", LONGEST_S),
        used_memory_bytes=_bytes(values, "used_memory"),
        used_walltime_s=None if end is None else end - start,
        failure=failure,
        facts=facts.text,
        dropped_facts=facts.dropped,
    )


def _text(values: Mapping[str, tuple[str, str]], field: str, longest: int) -> str | None:
    return text_field(*values[field], longest) if field in values else None


def _time(values: Mapping[str, tuple[str, str]], field: str) -> float | None:
    return seconds_of_epoch(*values[field]) if field in values else None


def _amount(values: Mapping[str, tuple[str, str]], field: str, largest: float) -> float | None:
    return amount(*values[field], largest) if field in values else None


def _bytes(values: Mapping[str, tuple[str, str]], field: str) -> int | None:
    found = _amount(values, field, LARGEST_BYTES)
    return int(found) or None if found is not None else None


def _count(values: Mapping[str, tuple[str, str]], field: str) -> int | None:
    if field not in values:
        return None
    found = whole(*values[field])
    if not 0 < found < INT32:
        raise AccountingError(f"{values[field][0]} is not a number of processors", values[field][1])
    return found


def _exit_status(values: Mapping[str, tuple[str, str]]) -> int | None:
    if "exit_status" not in values:
        return None
    found = whole(*values["exit_status"])
    if not -INT32 <= found < INT32:
        raise AccountingError("exit_status is not a whole number of 32 bits", values["exit_status"][1])
    return found


def _choice(values: Mapping[str, tuple[str, str]], field: str, choices: Mapping[str, _Choice]) -> _Choice | None:
    if field not in values:
        return None
    name, value = values[field]
    if value not in choices:
        raise AccountingError(f"{name} is not one of {', '.join(choices)}", value)
    return choices[value]
