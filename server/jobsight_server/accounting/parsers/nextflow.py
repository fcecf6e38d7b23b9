"""Nextflow's trace file: a line for each task, with columns of the user's choice.

https://docs.seqera.io/nextflow/reports#trace-file. Values are as people read them (``1.5 GB``, ``2m 3s``, local times)
or, with ``trace.raw``, in bytes and milliseconds. ``-`` means no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from math import inf

from jobsight_server.accounting.origin import Origin
from jobsight_server.accounting.parsers.quantities import (
    LARGEST_BYTES,
    LATEST,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    read_if_given,
    seconds_of,
    signed,
)
from jobsight_server.accounting.parsers.table_columns import header_of, parser_of_rows, processors
from jobsight_server.accounting.runs import AccountingError, Failure, JobEvent, RunRecord
from jobsight_server.ground.amounts import memory_bytes

KILLED = 137
_SAMPLED_S = 30.0  # after 1 and 5 s, sampled every 30
_NO_EXIT = f"{2**31 - 1}"  # of a task that left no exit status
_AT_ITS_LIMIT = frozenset({KILLED, 140, 143})  # how batch systems end a task at its time limit
_ENDED = frozenset({"COMPLETED", "CACHED", "FAILED", "ABORTED"})
_UNDER_WAY = frozenset({"NEW", "SUBMITTED", "RUNNING"})
_SEPARATORS = "\t,;|"
# The first of these in its file identifies a task; only the hash is unique over a workflow's runs.
_IDS = ("hash", "native_id", "task_id")

Row = Mapping[str, str]


def parser_of(beginning: bytes, origin: Origin) -> Callable[[str], JobEvent]:
    """Return the parser for the lines of a file that begins with these bytes.

    Raises:
        AccountingError: its first line is not the header of a trace file, or lacks a column.
    """
    header = header_of(beginning)
    separator = max(_SEPARATORS, key=header.count)
    columns = {name.strip() for name in header.split(separator)}
    for group in (_IDS, ("process", "name"), ("complete", "submit", "start"), ("complete", "duration", "realtime")):
        if columns.isdisjoint(group):
            raise AccountingError("a column is missing", " or ".join(group))

    def event_of(row: Row) -> JobEvent:
        return _event({name: value for name, value in row.items() if value not in ("", "-")}, origin)

    return parser_of_rows(header, lambda line: line.split(separator), event_of)


def _event(row: Row, origin: Origin) -> JobEvent:
    for value in row.values():
        if not value.isprintable():
            raise AccountingError("control characters", value)
    task = next((row[name] for name in _IDS if name in row), None)
    if task is None or len(task) > LONGEST_INDEXED:
        raise AccountingError("a task without a hash or a number", task)
    status = row.get("status", "COMPLETED")
    if status not in _ENDED | _UNDER_WAY:
        raise AccountingError("unknown status", status)
    submitted, ended = (read_if_given(row, name, instant) for name in ("submit", "complete"))
    whole_s, run_s = (read_if_given(row, name, duration_s) for name in ("duration", "realtime"))
    start = read_if_given(row, "start", instant)
    for began, took_s in ((submitted, whole_s), (start, run_s)):
        if ended is None and began is not None and took_s is not None:
            ended = began + took_s
    if ended is None or status in _UNDER_WAY:
        return JobEvent("N", task, submitted or 0.0, utc_s=submitted or 0.0)
    start = start or (None if run_s is None else ended - run_s)
    is_unknown = start is None
    if start is None:  # it began after its submission
        start = submitted or ended - (whole_s or 0.0)
    if not 0.0 < start <= ended:
        raise AccountingError("the end is before the start", f"{start:.0f} {ended:.0f}")
    run = _run(row, origin.user, start, ended, submitted, status)
    return JobEvent("E", task, ended, replace(run, start_unknown=True) if is_unknown else run, utc_s=ended)


def _run(row: Row, user: str, start: float, end: float, submitted: float | None, status: str) -> RunRecord:
    held = read_if_given(row, "cpus", processors)
    exit_status = signed("exit", row["exit"]) if row.get("exit", _NO_EXIT) != _NO_EXIT else None
    run_s = read_if_given(row, "realtime", duration_s)
    time_s = read_if_given(row, "time", duration_s) or None
    load = read_if_given(row, "%cpu", percent)
    host = row.get("hostname")
    name = _process(row)
    return RunRecord(
        user=user,
        start=start,
        end=end,
        name=name[:LONGEST_TEXT],
        queue=row.get("queue", "")[:LONGEST_TEXT] or None,
        queued=submitted,
        exec_host=host,
        nodes=() if host is None else ((host, held or 0),),
        processors=held,
        exit_status=exit_status,
        requested_walltime_s=time_s,
        requested_memory_bytes=read_if_given(row, "memory", size_bytes) or None,
        used_cpu_s=None if load is None or run_s is None else load * run_s,
        used_memory_bytes=read_if_given(row, "peak_rss", size_bytes) or read_if_given(row, "rss", size_bytes) or None,
        memory_intervals=(end - start if run_s is None else run_s) / _SAMPLED_S,
        used_walltime_s=end - start if run_s is None and "start" in row else run_s,
        failure=_failure(exit_status, end - start if "start" in row or run_s is not None else 0.0, time_s),
        ended_abnormally=status in ("FAILED", "ABORTED"),
    )


def _process(row: Row) -> str:
    """Return the process with its workflow, as Nextflow names jobs: ``RNASEQ:ALIGN`` is ``RNASEQ_ALIGN`` there."""
    found = row["process"] if "process" in row else row.get("name", "").partition(" (")[0]
    if not found:
        raise AccountingError("a task without a process")
    return found.replace(":", "_")


def _failure(exit_status: int | None, run_s: float, time_s: float | None) -> Failure | None:
    if time_s is not None and run_s >= time_s and exit_status in _AT_ITS_LIMIT:
        return "time"
    return "memory" if exit_status == KILLED else None


_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_PART = re.compile(rf"({_NUMBER}) ?(ms|s|m|h|d)", re.ASCII)
_DURATION = re.compile(rf"{_PART.pattern}(?: {_PART.pattern})*", re.ASCII)
_RAW = re.compile(r"[0-9]{1,16}", re.ASCII)
_LOAD = re.compile(rf"({_NUMBER})%?", re.ASCII)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def size_bytes(column: str, text: str) -> int:
    """Return bytes; units are powers of 1024.

    >>> size_bytes("peak_rss", "1.5 GB"), size_bytes("peak_rss", "3145728"), size_bytes("memory", "0")
    (1610612736, 3145728, 0)
    """
    try:
        value = memory_bytes(text)
    except ValueError:
        value = inf
    if value > LARGEST_BYTES:
        raise AccountingError(f"{column} is not an amount of memory", text)
    return round(value)


def duration_s(column: str, text: str) -> float:
    """Return seconds; a number alone is in milliseconds.

    >>> duration_s("realtime", "1d 2h 3s"), duration_s("realtime", "1.2s"), duration_s("realtime", "350")
    (93603.0, 1.2, 0.35)
    """
    if _RAW.fullmatch(text):
        value = int(text) / 1000
    else:
        parts = _PART.findall(text) if _DURATION.fullmatch(text) else [("inf", "s")]
        value = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if value > LONGEST_S:
        raise AccountingError(f"{column} is not a duration", text)
    return value


def instant(column: str, text: str) -> float:
    """Return UTC epoch seconds; a number alone is in milliseconds. Other times are local, in this machine's zone.

    >>> instant("submit", "1719302359716")
    1719302359.716
    """
    value = int(text) / 1000 if _RAW.fullmatch(text) else seconds_of(datetime.fromisoformat, text)
    if not 0.0 < value < LATEST:
        raise AccountingError(f"{column} is not a time such as 2026-11-20 20:00:38.123", text)
    return value


def percent(column: str, text: str) -> float:
    """Return the share of a processor: 2 is two processors.

    >>> percent("%cpu", "198.5%")
    1.985
    """
    match = _LOAD.fullmatch(text)
    if match is None or float(match[1]) > 1e8:
        raise AccountingError(f"{column} is not a percentage", text)
    return float(match[1]) / 100
