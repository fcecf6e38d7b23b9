"""Readers of the output of Slurm's commands and plugins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobsight_server.accounting.files import Chunk, RawRecord, Read, RecordReader
from jobsight_server.accounting.parsers.slurm import filetxt
from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.parsers.slurm.sacct_json import JsonRecords, first_field, rows_of
from jobsight_server.accounting.parsers.slurm.sacct_text import Header, JobRows, TextRecords, last_header
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of


def json_reader(beginning: bytes, cluster: str | None = None) -> RecordReader:
    """Return the reader of documents of ``sacct --json``.

    ``cluster`` is Slurm's name of the cluster whose jobs count, None if unknown.
    """
    records = JsonRecords(first_field(beginning))
    return RecordReader(lambda record: event_of(rows_of(record.data), cluster), records.split, "JSON of sacct")


def text_reader(header: Header, cluster: str | None = None, last: Header | None = None) -> RecordReader:
    """Return the reader of ``sacct -P`` with this header; ``cluster`` as for JSON. Reading resumes below ``last``."""

    def split(read: Read, tail: bytes, most_records: int) -> Iterator[Chunk]:
        return TextRecords(last if tail and last else header).split(read, tail, most_records)

    def parse(record: RawRecord) -> JobEvent:
        assert isinstance(record, JobRows)
        own = record.header or header
        if own.missing:
            raise AccountingError(own.missing)
        rows = [text_of(row).split(own.delimiter.decode("utf-8")) for row in record.rows]
        return event_of([dict(zip(own.columns, row, strict=True)) for row in rows], cluster)

    def resumed(before: Iterable[bytes]) -> RecordReader:
        return text_reader(header, cluster, last_header(before, header))

    return RecordReader(parse, split, "text of sacct", missing=header.missing, ends=bool, resumed=resumed)


FILETXT_READER = RecordReader(
    lambda record: filetxt.parse_record(text_of(record.data.removeprefix(BYTE_ORDER_MARK))),
    filetxt.split,
    "jobcomp/filetxt",
)
