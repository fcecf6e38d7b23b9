"""Each record of ``tests/golden/logs/FORMAT[-FORM].log`` is read or rejected as in its ``.json``.

A new case is a line in each: the failure shows the entry that was read. ``null`` and what is empty are left out.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.accounting.files import RawRecord, RecordReader
from jobsight_server.accounting.formats import reader_of
from jobsight_server.accounting.origin import Origin
from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.settings.declared import ACCOUNTING_FORMATS

LOGS = {log.stem: log for log in (Path(__file__).parents[2] / "golden" / "logs").glob("*.log")}
LEFT_OUT = {"array_parent", "dropped_facts", "zone_guessed"}  # where they are false or 0
ORIGIN = Origin("ann", None, "align", "s1.tsv", 1_790_000_100.0)


def entry(reader: RecordReader, record: RawRecord) -> dict[str, Any]:
    """The compared part of a record, and why it was refused."""
    try:
        event = json.loads(json.dumps(msgspec.to_builtins(reader.event(record))))
    except AccountingError as error:
        return {"reason": error.reason, "why": f"{error}"}
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
        ("nextflow", "hash\tname\tduration", "a column is missing: 'complete or submit or start'"),
        ("nextflow", "hash\tname\tsubmit", "a column is missing: 'complete or duration or realtime'"),
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
        why = found.pop("why", "")
        assert found == wanted, (why, data)


INSERTED = [b"", b'"', b"}", b"\x00\x1b[0m", b"\xe4", b"-1", b"nan", b"1e400", b"9" * 400, "\u0663".encode(), b"0x10"]
INSERTED += [b" ", b"=", b";", b":", b"/", b"-", b"*9", b"|", b"\t", b",", b"start=", b"9223372036854775808", b"1_000"]


@cache
def runs_of(name: str) -> tuple[bytes, list[bytes]]:
    """The part before the first run of a log with a record per line, and the lines of its first runs."""
    lines = [data for data, of in read(LOGS[name]) if of.get("run")][:5]
    whole = LOGS[name].read_bytes()
    return whole[: whole.index(lines[0])], lines


@pytest.mark.parametrize("name", [name for name in LOGS if not name.startswith(("slurm-", "condor-json"))])
@settings(max_examples=100)
@given(
    which=st.integers(0, 4),
    damage=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60), st.sampled_from(INSERTED)), min_size=1, max_size=4),
)
def test_damage_costs_its_own_record_only(name: str, which: int, damage: list[tuple[float, int, bytes]]) -> None:
    begin, lines = runs_of(name)
    which %= len(lines)
    hit = lines[which]
    for where, cut, inserted in damage:
        at = round(where * len(hit))
        hit = hit[:at] + inserted + hit[at + cut :]
    reader = reader_of(name.partition("-")[0], begin + b"\n".join(lines), ORIGIN)

    def outcomes(lines: list[bytes]) -> list[JobEvent | str]:
        whole = begin + b"\n".join([*lines, b""])
        return [outcome(reader, one) for chunk in reader.split(io.BytesIO(whole).read) for one in chunk.records]

    expected, found = outcomes(lines), outcomes([*lines[:which], hit, *lines[which + 1 :]])
    place = which - len(lines)
    of_hit = found[place]
    assert (len(found), found[:place]) == (len(expected), expected[:place])
    assert found[len(found) + place + 1 :] == expected[len(found) + place + 1 :]
    assert of_hit if isinstance(of_hit, str) else can_be_stored(of_hit)


def outcome(reader: RecordReader, record: RawRecord) -> JobEvent | str:
    try:
        return reader.event(record)
    except AccountingError as error:
        return error.reason


def can_be_stored(event: JobEvent) -> bool:
    run = event.run
    if run is None:
        return True
    sizes = (run.used_memory_bytes or 0, run.requested_memory_bytes or 0)
    counts = (run.processors or 0, run.asked_processors or 0, run.gpus or 0, *(number for _, number in run.nodes))
    times = run.start, run.start if run.end is None else run.end
    return (
        0 < len(run.user) <= 255
        and 0 <= times[0] <= times[1]
        and (run.start == inf or times[1] < 2**33)
        and all(0 <= size <= LARGEST_BYTES for size in sizes)
        and all(0 <= count < 2**31 for count in counts)
        and -(2**31) <= (run.exit_status or 0) < 2**31
    )


@pytest.mark.parametrize("name", LOGS)
def test_a_number_that_no_column_holds_is_refused_or_unknown(name: str) -> None:
    data = LOGS[name].read_bytes()
    reader = reader_of(name.partition("-")[0], data, ORIGIN)
    records = [record for chunk in reader.split(io.BytesIO(data).read) for record in chunk.records]
    for record in records[:4]:
        for number in re.finditer(rb"[0-9]+", record.data):
            for large in (b"2147483648", b"99999999999", b"9223372036854775808", b"9" * 40):
                changed = record.data[: number.start()] + large + record.data[number.end() :]
                found = outcome(reader, replace(record, data=changed))
                assert isinstance(found, str) or can_be_stored(found), changed
