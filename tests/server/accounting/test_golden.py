"""Each line of ``tests/golden/logs/FORMAT.log`` is the record, or is refused for the reason, that FORMAT.json has.

A new case is a line in each: the failure shows the entry that was read. ``null`` and what is empty are left out.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobsight_server.accounting.files import RawRecord
from jobsight_server.accounting.formats import RecordReader, reader_of
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.settings import ACCOUNTING_FORMATS

LOGS = {log.stem: log for log in (Path(__file__).parents[2] / "golden" / "logs").glob("*.log")}
LEFT_OUT = {"array_parent", "dropped_facts"}  # where they are false or 0


def entry(reader: RecordReader, record: RawRecord) -> dict[str, Any]:
    """What is compared of a record."""
    try:
        event = json.loads(json.dumps(msgspec.to_builtins(reader.event(record))))
    except AccountingError as error:
        return {"reason": error.reason}
    return _given({**event, "run": _given(event["run"] or {})})


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value or (value == 0 and name not in LEFT_OUT)}


@pytest.mark.parametrize("log_format", LOGS)
def test_each_line_is_read_or_refused_as_expected(log_format: Any) -> None:
    assert log_format in ACCOUNTING_FORMATS
    data = LOGS[log_format].read_bytes()
    reader = reader_of(log_format, data)
    records = [record for chunk in reader.split(io.BytesIO(data).read) for record in chunk.records]
    expected = json.loads(LOGS[log_format].with_suffix(".json").read_text())
    for record, wanted in zip(records, expected, strict=True):
        assert entry(reader, record) == wanted, record.data
