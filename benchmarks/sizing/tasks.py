"""Reads the recorded tasks of one workflow run (docs/develop/measurements.md)."""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

GZIP = b"\x1f\x8b"
MISSING = frozenset(("", "-", "nan", "na", "null"))
NUMBERS = ("submit", "complete", "memory", "realtime", "rss", "peak_rss", "rchar")
COLUMNS = ("process", *NUMBERS)
PARTS = frozenset(("", "train", "test"))


class TasksError(ValueError):
    """A file that is not a table of tasks."""


class Task(NamedTuple):
    """A task: times in seconds, amounts in bytes. ``rss``, ``peak_rss`` and ``size`` are known afterwards.

    ``size`` are the bytes read (``rchar``); ``part`` belongs to protocol A: train, test or empty.
    """

    process: str
    submitted: float
    ended: float
    seconds: float
    request: float
    rss: float
    peak_rss: float
    size: float
    part: str


class Workflow(NamedTuple):
    """The usable tasks of a file in its order; ``skipped`` counts the others by reason."""

    name: str
    tasks: list[Task]
    skipped: Counter[str]


def read_tasks(file: Path) -> Workflow:
    """Read the tasks of a CSV file, plain or gzip.

    Tasks without a measurement are skipped and counted: Nextflow samples, and misses the shortest.

    Raises:
        TasksError: columns are missing, something is not a number, or no task is usable; says where.
    """
    tasks: list[Task] = []
    skipped: Counter[str] = Counter()
    try:
        with _opened(file) as stream:
            reader = csv.DictReader(stream)
            if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
                raise TasksError(f"{file}: no column {', '.join(missing)}; needed are {', '.join(COLUMNS)}")
            for row in reader:
                found = _task(row, f"{file}, line {reader.line_num}")
                if isinstance(found, Task):
                    tasks.append(found)
                else:
                    skipped[found] += 1
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise TasksError(f"{file}: cannot be read: {error}") from error
    if not tasks:
        raise TasksError(f"{file}: no usable task ({dict(skipped)})" if skipped else f"{file}: no tasks")
    return Workflow(trace_name(file), tasks, skipped)


def trace_name(file: Path) -> str:
    """Return the file's name without its endings: ``eager`` for ``eager.csv.gz``."""
    return Path(file.name.removesuffix(".gz")).stem


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    with file.open("rb") as raw:
        packed = raw.read(2) == GZIP
    with (
        gzip.open(file, "rt", newline="", encoding="utf-8-sig")
        if packed
        else file.open(newline="", encoding="utf-8-sig") as stream
    ):
        yield stream


def _task(row: dict[str, str], place: str) -> Task | str:
    """Return the task of a row, or why it is not usable."""
    number: dict[str, float] = {}
    for column in NUMBERS:
        text = (row[column] or "").strip()
        try:
            number[column] = math.nan if text.lower() in MISSING else float(text)
        except ValueError:
            raise TasksError(f"{place}: {column} is {text[:40]!r}, not a number") from None
    part = (row.get("protocol_a") or "").strip()
    if part not in PARTS:
        raise TasksError(f"{place}: protocol_a is {part[:40]!r}, not train, test or empty")
    if not row["process"]:
        raise TasksError(f"{place}: no process")
    for column in ("memory", "rss", "peak_rss"):
        if not 0.0 < number[column] < math.inf:
            return f"no {column}"
    if not all(0.0 <= number[column] < math.inf for column in ("submit", "complete", "realtime")):
        return "no times"
    submitted, ended, seconds = (number[column] / 1000.0 for column in ("submit", "complete", "realtime"))
    size = number["rchar"] if 0.0 <= number["rchar"] < math.inf else 0.0
    return Task(
        process=row["process"],
        submitted=submitted,
        ended=max(submitted, ended),  # clocks of two machines
        seconds=seconds,
        request=number["memory"],
        rss=number["rss"],
        peak_rss=number["peak_rss"],
        size=size,
        part=part,
    )
