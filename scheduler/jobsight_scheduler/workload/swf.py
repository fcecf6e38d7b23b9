"""The Standard Workload Format, version 2.2 (Parallel Workloads Archive), read and written.

A trace is text: a line per job with 18 numbers, -1 for unknown ones, and comments after a semicolon. Real traces have
faults: lines too short or too long, decimals, text, lines twice, jobs out of order. Nothing is fatal: the usable lines
are kept, and every repair is counted, with the place of the first.
"""

from __future__ import annotations

import gzip
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

# Field names in the order of the format; times in seconds, memory in KB per processor.
FIELDS = (
    "job", "submit_s", "wait_s", "run_s", "processors", "cpu_s", "memory_kb", "requested_processors",
    "requested_s", "requested_memory_kb", "status", "user", "group", "application", "queue", "partition",
    "preceding_job", "think_s",
)  # fmt: skip
UNKNOWN = -1.0

LONGEST_LINE = 64 * 1024
"""Limit of a line's length: a job has 18 numbers, and a file may have no line ends at all."""

_SHOWN = 40
_GZIP_MAGIC = b"\x1f\x8b"
# A number, perhaps followed by words.
_COUNT = re.compile(r"([0-9]+)(?=\s|$)", re.ASCII)


COUNTED_FROM = "CountedFrom"
"""Name of the header line of a site's record: with the second from which on submissions count."""
PARTIAL = 2
"""Status of a run that did not end within its record: it was requeued, or ran on."""
_USER = re.compile(r"UserName ([0-9]{1,18}): (\S*)", re.ASCII)


def user_line(number: int, name: str) -> str:
    """Return the line of a ``header`` that names the user ``number``, spaces and the like in percent encoding."""
    return f"UserName {number}: {quote(name)}"


class TraceError(ValueError):
    """A file that is not a trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """``columns[name]`` is an array of shape (jobs,) per name of ``FIELDS``; -1 is unknown.

    ``header`` has the comment lines without their semicolons, ``repairs`` counts repaired and dropped lines by reason,
    and ``places`` has the first place of each and its text. ``lines`` are the jobs' line numbers in the file, from 1;
    None if there is no file.
    """

    columns: dict[str, NDArray[np.float64]]
    header: list[str] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)
    places: dict[str, str] = field(default_factory=dict)
    lines: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.columns["job"])

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.columns[name]

    @property
    def max_processors(self) -> int | None:
        """Processors of the machine, from ``MaxProcs`` in the header; None if it is missing."""
        return self._count("MaxProcs") or None

    @property
    def begin_s(self) -> int:
        """UTC epoch second of time 0, from ``UnixStartTime`` in the header; 0 if it is missing."""
        return self._count("UnixStartTime")

    @property
    def is_record(self) -> bool:
        """Return whether it is a site's record: of runs that held processors, not all of which ended."""
        return any(line.startswith(f"{COUNTED_FROM}:") for line in self.header)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Return which jobs ended, shape (jobs,): all but the partial ones of a record."""
        return np.ones(len(self), dtype=bool) if not self.is_record else np.not_equal(self["status"], PARTIAL)

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Return which jobs count, shape (jobs,); the others only hold their processors."""
        return self.ended & (self["submit_s"] >= self._count(COUNTED_FROM))

    def _count(self, wanted: str) -> int:
        for line in self.header:
            name, _, value = line.partition(":")
            count = _COUNT.match(value.strip())
            if name.strip() == wanted and count is not None and int(count[1][:18]) > 0:
                return int(count[1][:18])
        return 0

    @property
    def users(self) -> NDArray[np.str_]:
        """The user of each job, shape (jobs,): the name that the header gives its number (``user_line``), else the
        number, or ``-`` where it is unknown.
        """
        found = (_USER.fullmatch(line) for line in self.header)
        # A name of control characters stays encoded.
        names = {int(m[1]): name if (name := unquote(m[2])).isprintable() else m[2] for m in found if m is not None}
        numbers, of_job = np.unique(self["user"], return_inverse=True)
        known = [names.get(int(number), f"{number:.17g}") if number >= 0.0 else "-" for number in numbers.tolist()]
        return np.array(known, dtype=np.str_)[of_job]

    def place(self, row: int) -> str:
        """Return the place of the job in ``row``."""
        return f"job {row + 1}" if self.lines is None else f"line {self.lines[row]}"


def read_swf(file: Path) -> Trace:
    """Return the trace in ``file``, plain or gzip.

    Raises:
        TraceError: no line of the file is a job.
        OSError: the file cannot be read.
    """
    with file.open("rb") as raw:
        is_packed = raw.read(2) == _GZIP_MAGIC
    with gzip.open(file, "rb") if is_packed else file.open("rb") as stream:
        trace = parse_swf(lines_of(stream))
    if not len(trace):
        found = [f"{count} x {reason} (first: {trace.places[reason]})" for reason, count in trace.repairs.items()]
        raise TraceError(f"{file}: no job of 18 numbers in a line was found: {', '.join(found) or 'no lines'}")
    return trace


def lines_of(stream: BinaryIO | gzip.GzipFile) -> Iterator[str]:
    """Yield the lines of a file, each cut after ``LONGEST_LINE`` bytes and one."""
    while line := stream.readline(LONGEST_LINE + 1):
        yield line.decode("utf-8", "replace")
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE + 1)


def parse_swf(lines: Iterable[str]) -> Trace:
    """Return the trace in ``lines``. Lines with other than 18 fields are cut or filled with -1; text costs the line."""
    header: list[str] = []
    cells = array("d")  # a list of lists would take ten times the memory
    rows = array("q")
    repairs: Counter[str] = Counter()
    places: dict[str, str] = {}

    def repair(reason: str) -> None:
        repairs[reason] += 1
        places.setdefault(reason, f"line {number}: {text[:_SHOWN]!r}")

    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("\ufeff"):
            repair("begins with a byte order mark: mark left out")
            text = text.lstrip("\ufeff").lstrip()
        if len(line) > LONGEST_LINE:
            repair(f"longer than {LONGEST_LINE:,} characters: left out")
            continue
        if text.startswith(";"):
            header.append(text.lstrip(";").strip())
            continue
        if not text:
            continue
        try:
            numbers = [float(word) for word in text.partition(";")[0].split()]
        except ValueError:
            repair("not numbers: left out")
            continue
        if len(numbers) < 5:
            repair("fewer than 5 fields: left out")
            continue
        if len(numbers) != len(FIELDS):
            repair("not 18 fields: cut or filled with -1")
            numbers = (numbers + [UNKNOWN] * len(FIELDS))[: len(FIELDS)]
        cells.extend(numbers)
        rows.append(number)
    trace = Trace({}, header, repairs, places, np.array(rows, dtype=np.int64))
    table = np.frombuffer(cells).reshape(-1, len(FIELDS)).T.copy()
    del cells
    _take_infinite_as_unknown(trace, table)
    return _without_repeats(trace, table)


def _take_infinite_as_unknown(trace: Trace, table: NDArray[np.float64]) -> None:
    """Set values of ``table``, shape (fields, jobs), that are not finite to -1, and count them."""
    infinite = ~np.isfinite(table)
    if infinite.any():
        row = int(np.flatnonzero(infinite.any(axis=0))[0])
        name = int(np.flatnonzero(infinite[:, row])[0])
        shown = f"{FIELDS[name]} {table[name, row]}"
        _note(trace, "not finite: taken as unknown", infinite, row, shown)
        table[infinite] = UNKNOWN


def _note(trace: Trace, reason: str, places: NDArray[np.bool_], row: int, shown: str) -> None:
    """Count a repair, with its first place."""
    trace.repairs[reason] += int(places.sum())
    trace.places[reason] = f"{trace.place(row)}: {shown}"


def _without_repeats(trace: Trace, table: NDArray[np.float64]) -> Trace:
    """Return ``trace`` with the jobs of ``table``, shape (fields, jobs), without repeated lines.

    Jobs without a number may be equal.
    """
    assert trace.lines is not None
    _, first, number_of = np.unique(table[0], return_index=True, return_inverse=True)
    repeats = (table == table[:, first[number_of]]).all(axis=0) & (table[0] > 0)
    repeats[first] = False
    if repeats.any():
        row = int(np.flatnonzero(repeats)[0])
        _note(trace, "the same as another line: left out", repeats, row, f"job {table[0, row]:.0f}")
        table, lines = table[:, ~repeats], trace.lines[~repeats]
        trace = replace(trace, lines=lines)
    trace.columns.update(zip(FIELDS, table, strict=True))
    return trace


def write_swf(trace: Trace, file: Path) -> None:
    """Write ``trace``; reading it back gives the same columns and header. ``.gz`` is compressed."""
    with gzip.open(file, "wt") if file.suffix == ".gz" else file.open("w") as stream:
        stream.writelines(f"; {line}\n" for line in trace.header)
        for row in zip(*(trace[name].tolist() for name in FIELDS), strict=True):
            stream.write(" ".join(f"{value:.0f}" if value.is_integer() else repr(value) for value in row) + "\n")
