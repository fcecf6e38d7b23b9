"""The jobs in the text of ``sacct -P``: the row of each job with the rows of its steps, which follow it.

Job names and comments may hold newlines, so lines are joined until the row has all of its fields. A line that has all
of them by itself is a row again: after damage, reading resumes there. Values may hold ``|`` too, Slurm's own delimiter;
a row with too many fields is rejected, so run sacct with another delimiter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from jobsight_server.accounting.files import (
    HEAD_BYTES,
    LONGEST_RECORD,
    LONGEST_ROW,
    Chunk,
    ChunkBuilder,
    RawRecord,
    lines_of,
)
from jobsight_server.accounting.runs import NOT_AN_ID
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of

TOO_MANY = "more fields than the header; use sacct --delimiter=$'\\x1f'"
_TOO_FEW = "fewer fields than the header"
_NO_JOB = "a step without the row of its job"
_ID_COLUMN = b"JobID"
COLUMNS = (
    "JobIDRaw", "JobID", "User", "UID", "Group", "Account", "Partition", "JobName", "State", "ExitCode",
    "DerivedExitCode", "Submit", "Eligible", "Start", "End", "Suspended", "TimelimitRaw", "ReqMem", "ReqTRES",
    "AllocTRES", "AllocCPUS", "NNodes", "NodeList", "TotalCPU", "TRESUsageInTot", "TRESUsageInMax", "TRESUsageInMin",
    "Comment", "AdminComment", "NTasks",
)  # fmt: skip
"""What is read of every release; nothing of it changes by itself while a job runs."""

NEEDED = ("User", "State", "Submit", "Start", "End")
"""Required columns, besides ``JobIDRaw``, or ``JobID`` without arrays."""

_HEADER = re.compile(rb"[A-Za-z]+([^A-Za-z0-9\r\n]+)[A-Za-z]+(?:\1[A-Za-z]+)*(?:\1)?\r?")
_ROW_ID = re.compile(rb"([0-9]{1,10}(?:_[0-9]{1,10}|_\[[^\]]{0,500}\]|\+[0-9]{1,6})?)(\.[A-Za-z0-9+]{1,20})?")
_FREE_TEXT = frozenset({"JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir", "Extra"})


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of sacct, the delimiter, and the line itself."""

    columns: tuple[str, ...]
    delimiter: bytes
    line: bytes

    @property
    def missing(self) -> str:
        """Return which required column it lacks; empty if it has all."""
        absent = [column for column in NEEDED if column not in self.columns]
        return f"the header has no column {absent[0]}; ask sacct for it with --format" if absent else ""


@dataclass(frozen=True, slots=True)
class JobRows(RawRecord):
    """A record with its rows, each without its line end, below this header."""

    rows: tuple[bytes, ...] = ()
    header: Header | None = None


def header_of(beginning: bytes) -> Header | None:
    """Return the header in the first line; None if that is not a header."""
    line = beginning.partition(b"\n")[0].rstrip(b"\r")
    match = _HEADER.fullmatch(line)
    if match is None:
        return None
    columns = tuple(name.decode() for name in line.split(match[1]))
    return Header(columns, match[1], line) if {"JobID", "JobIDRaw"} & set(columns) else None


def last_header(pieces: Iterable[bytes], first: Header) -> Header:
    """Return the last header in a text that begins with ``first``."""
    found, held = first, b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if any(_ID_COLUMN in line for line in lines):
            found = next(filter(None, map(header_of, reversed(lines))), found)
        held = held[-LONGEST_ROW:]
    return found


def first_cluster(header: Header, beginning: bytes) -> str | None:
    """Return Slurm's name of the cluster in the first row; None if there is no such column."""
    row = beginning.split(b"\n", 2)[1:2]
    fields = row[0].split(header.delimiter) if row else []
    if "Cluster" not in header.columns or len(fields) != len(header.columns):
        return None
    return text_of(fields[header.columns.index("Cluster")].rstrip(b"\r")) or None


@dataclass(frozen=True, slots=True)
class _TextRow:
    """A row, or another line (``job_id`` None): then ``damage`` says why, or is empty to skip it."""

    data: bytes
    job_id: bytes | None = None
    is_step: bool = False
    damage: str | None = None
    complete: bool = True


@dataclass(slots=True)
class _JobRows:
    """The rows of one job so far; ``suspects`` are damaged ones after them."""

    job_id: bytes | None = None
    rows: list[_TextRow] = field(default_factory=list)
    size: int = 0
    damage: str | None = None
    suspects: list[_TextRow] = field(default_factory=list)
    header: Header | None = None

    def add(self, row: _TextRow) -> None:
        """Add a row of the job. A damaged line among its rows was one of them."""
        for one in (*self.suspects, row):
            self._take(one)
        self.suspects.clear()

    def _take(self, row: _TextRow) -> None:
        self.damage = self.damage or row.damage
        self.size += len(row.data)
        if self.size <= LONGEST_RECORD:
            self.rows.append(row)

    def flush(self, built: ChunkBuilder) -> None:
        """Add the job, and then the damaged rows as records of their own.

        A damaged row with the id of a step of the job was that step's, so the job is not whole without it.
        """
        if self.rows:
            step = b"%s." % self.job_id
            while self.suspects and step in self.suspects[0].data:
                self._take(self.suspects.pop(0))
            data = b"".join(row.data for row in self.rows)
            too_long = self.size > LONGEST_RECORD
            rows = () if too_long or self.damage else tuple(row.data.rstrip(b"\r\n") for row in self.rows)
            shown = data[:HEAD_BYTES] if too_long else data
            record = JobRows(shown, self.size, self.rows[-1].complete, too_long, self.damage, rows, self.header)
            built.add(record, data)
        for row in self.suspects:
            built.add(JobRows(row.data[:HEAD_BYTES], len(row.data), row.complete, damage=row.damage), row.data)
        self.job_id, self.rows, self.size, self.damage, self.suspects = None, [], 0, None, []


class TextRecords:
    """Splits text that begins below this header; another header counts from its line on."""

    def __init__(self, header: Header) -> None:
        self._begin(header)

    def _begin(self, header: Header) -> None:
        self._header = header
        self._delimiters = len(header.columns) - 1
        # The raw id, which nodes use, else the one that people see.
        self._id_column = header.columns.index("JobIDRaw" if "JobIDRaw" in header.columns else "JobID")
        self._open_ended = header.columns[-1] in _FREE_TEXT

    def split(self, read: Callable[[int], bytes], tail: bytes, most_records: int) -> Iterator[Chunk]:
        """Yield chunks of jobs; see ``RecordReader``."""
        built = ChunkBuilder(tail, most_records)
        group = _JobRows()
        for row in self._rows(read):
            if row.job_id is None and row.damage is None:
                group.flush(built)
                built.skip(row.data)
            elif row.job_id is None:
                group.suspects.append(row)
            elif not row.is_step:
                group.flush(built)
                yield from built.full()
                group.job_id, group.header = row.job_id, self._header
                group.add(row)
            elif row.job_id == group.job_id:
                group.add(row)
            else:
                group.suspects.append(replace(row, damage=_NO_JOB))
            if len(group.suspects) >= most_records:
                group.flush(built)
                yield from built.full()
        group.flush(built)
        yield from built.rest()

    def _rows(self, read: Callable[[int], bytes]) -> Iterator[_TextRow]:
        pending: list[bytes] = []  # lines that are not a complete row yet, their size and delimiters
        size = found = 0
        damaged = False  # what the lines before it were joined to
        for line in lines_of(read):
            count, is_inside, damaged = line.count(self._header.delimiter), damaged, False
            if pending:
                begins = count == self._delimiters and self._id_of(line) is not None
                if not begins and found + count <= self._delimiters and size + len(line) <= LONGEST_ROW:
                    pending.append(line)
                    size, found = size + len(line), found + count
                    if found == self._delimiters and not self._open_ended:
                        row = self._row(b"".join(pending))
                        yield row
                        pending, damaged = [], row.damage is not None
                    continue
                yield self._row(b"".join(pending))
                pending, is_inside = [], found < self._delimiters
            # Within a row, it is from a job's name; a file that grows may end within it.
            is_whole = line.endswith(b"\n") and not is_inside
            if is_whole and (header := header_of(line.removeprefix(BYTE_ORDER_MARK))) is not None:
                yield _TextRow(line)  # ends the rows of the job before it
                self._begin(header)
            elif not line.strip() or (count == self._delimiters and not self._open_ended):
                yield self._row(line)
            else:
                pending, size, found = [line], len(line), count
        if pending:
            yield self._row(b"".join(pending))

    def _row(self, data: bytes) -> _TextRow:
        bare = data.rstrip(b"\r\n")
        complete = data.endswith(b"\n")
        if not bare:
            return _TextRow(data)
        count = data.count(self._header.delimiter)
        if count != self._delimiters:
            return _TextRow(data, damage=TOO_MANY if count > self._delimiters else _TOO_FEW, complete=complete)
        match = self._id_of(data)
        if match is None:
            return _TextRow(data, damage=NOT_AN_ID, complete=complete)
        return _TextRow(data, match[1], match[2] is not None, complete=complete)

    def _id_of(self, data: bytes) -> re.Match[bytes] | None:
        fields = data.split(self._header.delimiter, self._id_column + 1)
        return _ROW_ID.fullmatch(fields[self._id_column].rstrip(b"\r\n"))
