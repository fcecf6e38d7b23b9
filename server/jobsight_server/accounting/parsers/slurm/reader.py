"""Reads the output of Slurm's commands and plugins; the beginning of a file shows its variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from jobsight_server.accounting.files import LONGEST_RECORD, Chunk, RawRecord
from jobsight_server.accounting.parsers.slurm import filetxt
from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.parsers.slurm.sacct_json import JsonRecords, first_field, rows_of
from jobsight_server.accounting.parsers.slurm.sacct_text import Header, JobRows, TextRecords, last_header
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
    """Reads ``sacct -P`` with this header; ``cluster`` as for JSON. Reading resumes below ``last``."""

    header: Header
    cluster: str | None = None
    last: Header | None = None
    by_lines: bool = False
    form: str = "text of sacct"

    @property
    def missing(self) -> str:
        """Return the header's error; empty if it has all required columns."""
        return self.header.missing

    def resumed(self, before: Iterable[bytes]) -> TextReader:
        """Return the reader of what follows ``before``, pieces of the text from its beginning on."""
        return replace(self, last=last_header(before, self.header))

    def split(self, read: Callable[[int], bytes], tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        return TextRecords(self.last if tail and self.last else self.header).split(read, tail, most_records)

    def event(self, record: RawRecord) -> JobEvent:
        _check(record)
        assert isinstance(record, JobRows)
        header = record.header or self.header
        if header.missing:
            raise AccountingError(header.missing)
        rows = [text_of(row).split(header.delimiter.decode("utf-8")) for row in record.rows]
        return event_of([dict(zip(header.columns, row, strict=True)) for row in rows], self.cluster)


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
