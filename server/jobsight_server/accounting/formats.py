"""Readers of each scheduler's log: they split its bytes into records, and parse a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from jobsight_server.accounting.files import CUT, LONGEST_LINE, Chunk, Content, RawRecord, chunks
from jobsight_server.accounting.origin import NOTHING, NOWHERE, Given, Origin, origin_of
from jobsight_server.accounting.parsers import PARSERS, Parse, nextflow, snakemake, table
from jobsight_server.accounting.parsers.slurm.reader import FiletxtReader, JsonReader, TextReader
from jobsight_server.accounting.parsers.slurm.sacct_json import cluster_of_first
from jobsight_server.accounting.parsers.slurm.sacct_text import first_cluster, header_of
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of

Read = Callable[[int], bytes]
"""Returns up to so many bytes; b"" at the end."""


class RecordReader(Protocol):
    """Reads the records of one file."""

    @property
    def by_lines(self) -> bool:
        """Return whether a record is a line: then lines can be counted independently of the code that splits them."""

    @property
    def form(self) -> str:
        """Return the file's variant of the format; empty if there is only one."""

    def split(self, read: Read, tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        """Yield chunks of records in order, in bounded memory for any stream.

        ``tail`` are the bytes before the stream's first; the stream begins where a record does.
        """

    def event(self, record: RawRecord) -> JobEvent:
        """Parse a record.

        Raises:
            AccountingError: it cannot be used, for the given reason.
        """


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads logs with one record per line."""

    parse: Parse
    by_lines: bool = True
    form: str = ""

    def split(self, read: Read, tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        return chunks(read, tail, most_records)

    def event(self, record: RawRecord) -> JobEvent:
        if record.too_long:
            raise AccountingError(f"longer than {LONGEST_LINE} bytes")
        if not record.complete:
            raise AccountingError(CUT)
        return self.parse(text_of(record.data.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\r")))


# Without the document around them, as jq prints them.
_BARE_RECORDS = re.compile(rb'\[?\s*\{\s*"account"\s*:')
# A header and the line below it, as sacct prints them for people.
_COLUMNS = re.compile(rb"[^\n]*\bJobID(?:Raw)?\b[^\n]*\n[- ]{3,}\r?\n")
_OF_FILETXT = re.compile(rb"^JobId=[0-9]+ UserId=", re.MULTILINE)


def slurm_reader(beginning: bytes) -> RecordReader:
    """Return the reader for the output of a command or plugin of Slurm, by its beginning."""
    beginning = beginning.removeprefix(BYTE_ORDER_MARK).lstrip()
    if _BARE_RECORDS.match(beginning):
        return LineReader(_of_records)
    if beginning[:1] == b"{":
        return JsonReader(beginning, cluster=cluster_of_first(beginning))
    if (header := header_of(beginning)) is not None:
        return TextReader(header, first_cluster(header, beginning))
    if _OF_FILETXT.search(beginning):
        return FiletxtReader()
    return LineReader(_of_columns if _COLUMNS.match(beginning) else _without_header)


def _without_header(line: str) -> JobEvent:
    raise AccountingError("not JSON of sacct, and no header of its text: run sacct without --noheader", line)


def _of_records(line: str) -> JobEvent:
    raise AccountingError("records of sacct without the document around them: give what sacct --json prints", line)


def _of_columns(line: str) -> JobEvent:
    raise AccountingError("columns of sacct, which cut values off: run sacct with --parsable2", line)


# Formats with variants or columns -> the function that makes a reader from the file's beginning and origin.
READERS: Mapping[str, Callable[[bytes, Origin], RecordReader]] = {
    "slurm": lambda beginning, _: slurm_reader(beginning),
    "table": lambda beginning, _: LineReader(table.parser_of(beginning)),
    "nextflow": lambda beginning, origin: LineReader(nextflow.parser_of(beginning, origin)),
    "snakemake": lambda beginning, origin: LineReader(snakemake.parser_of(beginning, origin)),
}

BEGINNING_BYTES = 256 * 1024
"""Enough bytes of a file to include its header."""


def open_reader(log_format: str, content: Content, given: Given = NOTHING) -> RecordReader:
    """Return the reader for a file; move ``content`` to its beginning. ``given``: values that the file lacks."""
    if log_format not in READERS:
        return reader_of(log_format, b"")
    return reader_of(log_format, content.beginning(BEGINNING_BYTES), origin_of(content.path, given))


def reader_of(log_format: str, beginning: bytes, origin: Origin = NOWHERE) -> RecordReader:
    """Return the reader for a file that begins with these bytes."""
    return READERS[log_format](beginning, origin) if log_format in READERS else LineReader(PARSERS[log_format])
