"""Reads and writes the Standard Workload Format, version 2.2 (Parallel Workloads Archive).

A trace is text, a line per job with 18 numbers, -1 where something is not known, and comment lines that begin with a
semicolon. Real traces have faults: lines too short or too long, decimals, text, jobs out of order. Nothing is fatal:
what can be used is, and every repair is counted.
"""

from __future__ import annotations

import gzip
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Field names in the order of the format; times in seconds, memory in KB per processor.
FIELDS = (
    "job", "submit_s", "wait_s", "run_s", "processors", "cpu_s", "memory_kb", "requested_processors",
    "requested_s", "requested_memory_kb", "status", "user", "group", "application", "queue", "partition",
    "preceding_job", "think_s",
)  # fmt: skip
UNKNOWN = -1.0


class TraceError(ValueError):
    """A file that is no trace at all."""


@dataclass(frozen=True, slots=True)
class Trace:
    """``columns[name]`` is an array of shape (jobs,) per name of ``FIELDS``; -1 is unknown.

    ``header`` holds the comment lines without their semicolons, ``repairs`` counts what was mended or left out.
    """

    columns: dict[str, NDArray[np.float64]]
    header: list[str] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.columns["job"])

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.columns[name]

    @property
    def max_processors(self) -> int | None:
        """Processors of the machine, as ``MaxProcs`` in the header tells; None where it does not."""
        for line in self.header:
            name, _, value = line.partition(":")
            if name.strip() == "MaxProcs" and value.strip().isdecimal() and int(value) > 0:
                return int(value)
        return None


def read_swf(file: Path) -> Trace:
    """The trace in ``file``, plain or ``.gz``.

    Raises:
        TraceError: no line of the file is a job.
        OSError: the file cannot be read.
    """
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
        trace = parse_swf(line.decode("utf-8", "replace") for line in stream)
    if not len(trace):
        found = ", ".join(f"{count} lines {reason}" for reason, count in trace.repairs.items()) or "no lines"
        raise TraceError(f"{file} has no job of the Standard Workload Format: {found}")
    return trace


def parse_swf(lines: Iterable[str]) -> Trace:
    """The trace in ``lines``. Lines with other than 18 fields are cut or filled with -1; text costs the line."""
    header: list[str] = []
    cells = array("d")  # a list of lists would take ten times the memory
    repairs: Counter[str] = Counter()
    for line in lines:
        text = line.strip()
        if text.startswith(";"):
            header.append(text.lstrip(";").strip())
            continue
        if not text:
            continue
        try:
            numbers = [float(word) for word in text.split()]
        except ValueError:
            repairs["not numbers: left out"] += 1
            continue
        if len(numbers) < 5:
            repairs["fewer than 5 fields: left out"] += 1
            continue
        if len(numbers) != len(FIELDS):
            repairs["not 18 fields: cut or filled with -1"] += 1
            numbers = (numbers + [UNKNOWN] * len(FIELDS))[: len(FIELDS)]
        cells.extend(numbers)
    table = np.frombuffer(cells).reshape(-1, len(FIELDS)).T.copy()
    del cells
    infinite = ~np.isfinite(table)
    if infinite.any():
        repairs["not finite: taken as unknown"] += int(infinite.sum())
        table[infinite] = UNKNOWN
    return Trace(dict(zip(FIELDS, table, strict=True)), header, repairs)


def write_swf(trace: Trace, file: Path) -> None:
    """Writes ``trace``; reading it again gives the same columns and header. ``.gz`` is compressed."""
    with gzip.open(file, "wt") if file.suffix == ".gz" else file.open("w") as stream:
        stream.writelines(f"; {line}\n" for line in trace.header)
        for row in zip(*(trace[name].tolist() for name in FIELDS), strict=True):
            stream.write(" ".join(f"{value:.0f}" if value.is_integer() else repr(value) for value in row) + "\n")
