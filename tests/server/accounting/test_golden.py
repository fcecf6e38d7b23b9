"""Each record of ``tests/golden/logs/FORMAT[-FORM].log`` is read, or refused for the reason, as its ``.json`` has it.

A new case is a line in each: the failure shows the entry that was read. ``null`` and what is empty are left out.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobsight_server.accounting.files import RawRecord, RecordReader
from jobsight_server.accounting.formats import reader_of
from jobsight_server.accounting.origin import Origin
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.settings import ACCOUNTING_FORMATS

LOGS = {log.stem: log for log in (Path(__file__).parents[2] / "golden" / "logs").glob("*.log")}
LEFT_OUT = {"array_parent", "dropped_facts", "zone_guessed"}  # where they are false or 0
ORIGIN = Origin("ann", None, "align", "s1.tsv", 1_790_000_100.0)


def entry(reader: RecordReader, record: RawRecord) -> dict[str, Any]:
    """What is compared of a record."""
    try:
        event = json.loads(json.dumps(msgspec.to_builtins(reader.event(record))))
    except AccountingError as error:
        return {"reason": error.reason}
    return _given({**event, "run": _given(event["run"] or {})})


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value or (value == 0 and name not in LEFT_OUT)}


def read(log: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Each record of a log with its entry."""
    data = log.read_bytes()
    reader = reader_of(log.stem.partition("-")[0], data, ORIGIN)
    chunks = list(reader.split(io.BytesIO(data).read))
    assert sum(chunk.length for chunk in chunks) == len(data)
    return [(record.data, entry(reader, record)) for chunk in chunks for record in chunk.records]


def test_every_format_has_a_log() -> None:
    assert {name.partition("-")[0] for name in LOGS} == set(ACCOUNTING_FORMATS)


@pytest.mark.parametrize(
    ("log_format", "header", "reason"),
    [
        ("nextflow", "name\tstatus\tsubmit\tduration", "a column is missing: 'hash or native_id or task_id'"),
        ("nextflow", "hash\tstatus\tsubmit\tduration", "a column is missing: 'process or name'"),
        ("nextflow", "hash\tname\tduration", "a column is missing: 'complete or submit'"),
        ("nextflow", "hash\tname\tsubmit", "a column is missing: 'complete or duration'"),
        ("table", "job_id,user,start_epoch_s,used_memory", "unknown column: 'used_memory; nearest: used_memory_"),
        ("table", "job_id,user,start_epoch_s,usr", "unknown column: 'usr; nearest: user'"),
        ("table", "JobID,user,start_epoch_s", "unknown column: 'JobID; nearest: "),
        ("table", "job_id,user,start_epoch_s,start_utc", "two columns for the same field: 'start_epoch_s, start_utc'"),
        ("table", "job_id,user", "a column is missing: 'start_epoch_s or start_epoch_ms or start_utc'"),
        ("table", "", "a column is missing: 'job_id'"),
        ("table", 'job_id,"user', "not a line of CSV"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(log_format: str, header: str, reason: str) -> None:
    with pytest.raises(AccountingError, match=reason):
        reader_of(log_format, f"{header}\n1,ann,1\n".encode(), ORIGIN)


@pytest.mark.parametrize("name", LOGS)
def test_each_line_is_read_or_refused_as_expected(name: str) -> None:
    expected = json.loads(LOGS[name].with_suffix(".json").read_text())
    for (data, found), wanted in zip(read(LOGS[name]), expected, strict=True):
        assert found == wanted, data
