"""Readers of each scheduler's log: they split its bytes into records, and parse a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jobsight_server.accounting.files import Content, RawRecord, RecordReader, chunks
from jobsight_server.accounting.origin import NOTHING, NOWHERE, Given, Origin, origin_of
from jobsight_server.accounting.parsers import condor, gridengine, lsf, nextflow, pbspro, snakemake, table, torque
from jobsight_server.accounting.parsers.slurm.reader import FILETXT_READER, json_reader, text_reader
from jobsight_server.accounting.parsers.slurm.sacct_json import cluster_of_first
from jobsight_server.accounting.parsers.slurm.sacct_text import first_cluster, header_of
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of

Parse = Callable[[str], JobEvent]


# The last keys of a run's end.
_ENDS_OF_PBS = re.compile(
    rb";[ER];.* (?:resources_used\.walltime=[0-9]+:[0-9]{2}:[0-9]{2}|run_count=[0-9]+) *\r?\Z"
).search


def line_reader(parse: Parse, ends: Callable[[bytes], object] = bool) -> RecordReader:
    """Return the reader of a log with one record per line; ``ends`` as in ``RecordReader``, by default ``parse``
    counts fields.
    """

    def event_of(record: RawRecord) -> JobEvent:
        return parse(text_of(record.data.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\r")))

    return RecordReader(event_of, chunks, by_lines=True, ends=ends)


# Without the document around them, as jq prints them.
_BARE_RECORDS = re.compile(rb'\[?\s*\{\s*"account"\s*:')
# A header and the line below it, as sacct prints them for people.
_COLUMNS = re.compile(rb"[^\n]*\bJobID(?:Raw)?\b[^\n]*\n[- ]{3,}\r?\n")
_OF_FILETXT = re.compile(rb"^JobId=[0-9]+ UserId=", re.MULTILINE)


def slurm_reader(beginning: bytes) -> RecordReader:
    """Return the reader for the output of a command or plugin of Slurm, by its beginning."""
    beginning = beginning.removeprefix(BYTE_ORDER_MARK).lstrip()
    if _BARE_RECORDS.match(beginning):
        return _refusing("records of sacct without the document around them: give what sacct --json prints")
    if beginning[:1] == b"{":
        return json_reader(beginning, cluster_of_first(beginning))
    if (header := header_of(beginning)) is not None:
        return text_reader(header, first_cluster(header, beginning))
    if _OF_FILETXT.search(beginning):
        return FILETXT_READER
    if _COLUMNS.match(beginning):
        return _refusing("columns of sacct, which cut values off: run sacct with --parsable2")
    return _refusing("not JSON of sacct, and no header of its text: run sacct without --noheader")


def _refusing(reason: str) -> RecordReader:
    def refuse(line: str) -> JobEvent:
        raise AccountingError(reason, line)

    return line_reader(refuse)


# Format in the settings (see ``settings.AccountingFormat``) -> what makes a reader of a file's beginning and origin.
READERS: Mapping[str, Callable[[bytes, Origin], RecordReader]] = {
    "torque": lambda *_: line_reader(torque.parse_line, _ENDS_OF_PBS),
    "pbspro": lambda *_: line_reader(pbspro.parse_line, _ENDS_OF_PBS),
    "gridengine": lambda *_: line_reader(gridengine.parse_line),
    "condor": lambda *_: condor.condor_reader(),
    "lsf": lambda *_: line_reader(lsf.parse_line),
    "slurm": lambda beginning, _: slurm_reader(beginning),
    "table": lambda beginning, _: line_reader(table.parser_of(beginning)),
    "nextflow": lambda beginning, origin: line_reader(nextflow.parser_of(beginning, origin)),
    "snakemake": lambda beginning, origin: line_reader(snakemake.parser_of(beginning, origin)),
}
_OF_OWNERS = ("nextflow", "snakemake")  # their records lack the user

BEGINNING_BYTES = 256 * 1024
"""Enough bytes of a file to include its header."""


def open_reader(log_format: str, content: Content, given: Given = NOTHING) -> RecordReader:
    """Return the reader for a file; move ``content`` to its beginning. ``given``: values that the file lacks."""
    origin = origin_of(content.path, given) if log_format in _OF_OWNERS else NOWHERE
    return reader_of(log_format, content.beginning(BEGINNING_BYTES), origin)


def reader_of(log_format: str, beginning: bytes, origin: Origin = NOWHERE) -> RecordReader:
    """Return the reader for a file that begins with these bytes."""
    return READERS[log_format](beginning, origin)
