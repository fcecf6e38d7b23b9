"""Reads the output of Slurm's commands and plugins; the beginning of a file shows its variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jobsight_server.accounting.files import LONGEST_RECORD, Chunk, RawRecord
from jobsight_server.accounting.parsers.slurm import filetxt
from jobsight_server.accounting.parsers.slurm.job import NEEDED, event_of
from jobsight_server.accounting.parsers.slurm.sacct_json import JsonRecords, first_field, rows_of
from jobsight_server.accounting.parsers.slurm.sacct_text import Header, JobRows, TextRecords
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of

CUT = "cut off: the file ends within the record"


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Reads documents of ``sacct --json``.

    ``cluster`` is Slurm's name of the cluster whose jobs count, None if unknown.
    """

    beginning: bytes
    cluster: str | None = None
    by_lines: bool = False
    form: str = "JSON of sacct"

    def split(self, read: Callable[[int], bytes], tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        return JsonRecords(first_field(self.beginning)).split(read, tail, most_records)

    def event(self, record: RawRecord) -> JobEvent:
        _check(record)
        return event_of(rows_of(record.data), self.cluster)


@dataclass(frozen=True, slots=True)
class TextReader:
    """Reads ``sacct -P`` with this header; ``cluster`` as for JSON."""

    header: Header
    cluster: str | None = None
    by_lines: bool = False
    form: str = "text of sacct"

    @property
    def missing(self) -> str:
        """Return the header's error; empty if it has all required columns."""
        absent = [column for column in NEEDED if column not in self.header.columns]
        return f"the header has no column {absent[0]}; ask sacct for it with --format" if absent else ""

    def split(self, read: Callable[[int], bytes], tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        return TextRecords(self.header).split(read, tail, most_records)

    def event(self, record: RawRecord) -> JobEvent:
        _check(record)
        if self.missing:
            raise AccountingError(self.missing)
        assert isinstance(record, JobRows)
        rows = [text_of(row).split(self.header.delimiter.decode("utf-8")) for row in record.rows]
        return event_of([dict(zip(self.header.columns, row, strict=True)) for row in rows], self.cluster)


@dataclass(frozen=True, slots=True)
class FiletxtReader:
    """Reads the file of jobcomp/filetxt."""

    by_lines: bool = False
    form: str = "jobcomp/filetxt"

    def split(self, read: Callable[[int], bytes], tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        return filetxt.split(read, tail, most_records)

    def event(self, record: RawRecord) -> JobEvent:
        _check(record)
        return filetxt.parse_record(text_of(record.data.removeprefix(BYTE_ORDER_MARK)))


def _check(record: RawRecord) -> None:
    if record.too_long:
        raise AccountingError(f"longer than {LONGEST_RECORD} bytes")
    if not record.complete:
        raise AccountingError(CUT)
    if record.damage is not None:
        raise AccountingError(record.damage)
