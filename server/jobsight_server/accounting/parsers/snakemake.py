"""Snakemake's benchmark files: a line for each repetition of one job, as columns or, in ``.jsonl``, as JSON.

https://snakemake.readthedocs.io/en/stable/snakefiles/rules.html#benchmark-rules. Memory is in MiB. With
``--benchmark-extended`` a line names its rule, threads, resources and inputs; without it, only the file's name shows
the rule. Lines have no times, but the file is written when the job's last repetition has ended.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, TypeVar

from jobsight_server.accounting.origin import Origin
from jobsight_server.accounting.parsers.quantities import (
    LARGEST_BYTES,
    LONGEST_INDEXED,
    LONGEST_S,
    LONGEST_TEXT,
    number,
)
from jobsight_server.accounting.parsers.table_columns import header_of, is_json, json_object, parser_of_rows
from jobsight_server.accounting.runs import AccountingError, JobEvent, RunRecord
from jobsight_server.ground.amounts import span_s
from jobsight_server.ground.facts import found_facts

_FIRST = "s\th:m:s\tmax_rss"
_MIB, _MB = 2**20, 10**6
_SAMPLED_S = 60.0  # sampled at 30 s, and then at 60
_MISSING = ("", "-", "NA", "<TBD>")
_NOT_A_RULE = re.compile(r"\.?benchmarks?", re.IGNORECASE)
_EXTENSIONS = re.compile(r"(\.(gz|txt|tsv|csv|jsonl|bench|benchmarks?))+$", re.IGNORECASE)
_Value = TypeVar("_Value")


def parser_of(beginning: bytes, origin: Origin) -> Callable[[str], JobEvent]:
    """Return the parser for the lines of a file that begins with these bytes.

    Raises:
        AccountingError: it is not a benchmark file.
    """
    if is_json(beginning):
        return lambda line: _event(_json(line), origin)
    header = header_of(beginning)
    if not header.startswith(_FIRST):
        raise AccountingError("not the header of a benchmark file", header)
    return parser_of_rows(header, lambda line: line.split("\t"), lambda row: _event(row, origin))


def _json(line: str) -> dict[str, Any]:
    found = json_object(line)
    if not {"s", "h:m:s", "max_rss"} <= found.keys():
        raise AccountingError("not a record of a benchmark", line)
    return found


def _event(row: Mapping[str, Any], origin: Origin) -> JobEvent:
    run_s = _number(row, "s", LONGEST_S)
    if run_s is None:
        raise AccountingError("s is missing")
    rule = origin.application or str(row.get("rule_name") or "") or rule_of(origin.folder, origin.name)
    if not rule.isprintable() or len(rule) > LONGEST_TEXT:
        raise AccountingError("rule_name is not the name of a rule", rule)
    unreadable: list[str] = []

    def optional(read: Callable[[], _Value | None]) -> _Value | None:
        """Return the value of a field; None if it is unreadable: that costs the field only, and is counted."""
        try:
            return read()
        except AccountingError as error:
            unreadable.append(error.reason)
            return None

    resources = optional(lambda: _mapping(row, "resources")) or {}
    inputs = optional(lambda: _mapping(row, "input_size_mb")) or {}
    memory_mb = optional(lambda: _number(resources, "mem_mb", LARGEST_BYTES / _MB))
    memory, end = optional(lambda: _number(row, "max_rss", LARGEST_BYTES / _MIB)), origin.written
    sizes = [optional(partial(_number, inputs, name, LARGEST_BYTES / _MIB)) for name in inputs]
    known = [size for size in sizes if size is not None]
    facts = found_facts([("input_bytes", f"{_MIB * sum(known)}")] if known and len(known) == len(sizes) else [])
    run = RunRecord(
        user=origin.user,
        start=max(0.0, end - run_s),
        end=end,
        name=rule,
        processors=optional(lambda: _threads(row)),
        requested_walltime_s=optional(lambda: _runtime_s(resources)),
        requested_memory_bytes=int(memory_mb * _MB) if memory_mb else None,
        used_cpu_s=optional(lambda: _number(row, "cpu_time", LONGEST_S)),
        used_memory_bytes=None if memory is None else round(memory * _MIB) or None,
        memory_intervals=run_s / _SAMPLED_S,
        used_walltime_s=run_s,
        facts=facts.text,
        dropped_facts=len(unreadable),
    )
    return JobEvent("E", f"{origin.folder}/{origin.name}"[-LONGEST_INDEXED:], end, run, utc_s=end)


def rule_of(folder: str, name: str) -> str:
    """Return the rule of a file that does not name it: its folder, or else its own name.

    >>> rule_of("bwa", "sample-1.tsv"), rule_of("benchmarks", "bwa.benchmark.txt")
    ('bwa', 'bwa')
    """
    return _EXTENSIONS.sub("", name) or name if _NOT_A_RULE.fullmatch(folder) or not folder else folder


def _number(row: Mapping[str, Any], column: str, largest: float) -> float | None:
    value = row.get(column)
    if value is None or value in _MISSING:
        return None
    return number(column, str(value), largest)


def _threads(row: Mapping[str, Any]) -> int | None:
    """Return the job's processors; None if the file lacks them."""
    found = _number(row, "threads", 2**16)
    if found is not None and (found < 1 or not found.is_integer()):
        raise AccountingError("threads is not a number of processors", str(row["threads"]))
    return None if found is None else int(found)


def _runtime_s(resources: Mapping[str, Any]) -> float | None:
    """Return the requested run time, of a number of minutes or a text such as ``2h``; None for none."""
    value = resources.get("runtime")
    if isinstance(value, str) and value not in _MISSING and not value.replace(".", "", 1).isdecimal():
        try:
            found = span_s(value)
        except ValueError:
            found = inf
        if not found <= LONGEST_S:
            raise AccountingError("runtime is not a time", value)
        return found or None
    minutes = _number(resources, "runtime", LONGEST_S / 60)
    return 60 * minutes if minutes else None


def _mapping(row: Mapping[str, Any], column: str) -> Mapping[str, Any]:
    """Return an object in JSON; in columns, a mapping as Python prints it."""
    value = row.get(column)
    if isinstance(value, str) and value not in _MISSING:
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise AccountingError(f"{column} is not a mapping", value) from None
    return value if isinstance(value, dict) else {}
