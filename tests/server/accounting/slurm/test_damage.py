"""A damaged record is read or listed with a reason, and never affects the others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none
from tests.server.accounting.slurm.conftest import MIB, NOON, Release

from jobsight_server.accounting.files import RawRecord, RecordReader
from jobsight_server.accounting.parsers.slurm.reader import json_reader, text_reader
from jobsight_server.accounting.parsers.slurm.sacct_text import header_of
from jobsight_server.accounting.runs import AccountingError, JobEvent

RELEASE = Release()
HOSTILE = [None, True, "", "x", "\x00", -1, 0, 1.5, 2**31, 2**63, 1e300, "9" * 5000, [], {}, [None], {"set": True}]
HOSTILE += [{"set": 1, "number": "x"}, "é\ud800".encode("utf-8", "replace").decode(), [[[]]], "1-", "::", "n[1-"]
TEXTS = ["", "x", "\x00", "-1", "0", "1.5", str(2**63), "9" * 5000, "²", "1-1-1", "::", "n[1-", "mem=", "=", "é", "K"]
TEXTS += ["Unknown", "None", "INVALID", "cpu=x,mem=1", "0:0:0", "2026-13-45T99:99:99", "9999-12-31T23:59:59", "1e9"]


def job(number: int) -> dict[str, Any]:
    steps = [RELEASE.step(name, NOON, NOON + 9, number * MIB, 1.0) for name in ("batch", "0")]
    return RELEASE.job(job_id=number, steps=steps)


def read(reader: RecordReader, data: bytes, sizes: int) -> list[JobEvent | str]:
    """Read events and reasons from ``data`` in pieces of ``sizes`` bytes; asserts that every byte is accounted for."""
    place, found, length = 0, [], 0

    def piece(size: int) -> bytes:
        nonlocal place
        some = data[place : place + min(size, sizes)]
        place += len(some)
        return some

    for chunk in reader.split(piece, most_records=2):
        length += chunk.length
        assert data[:length].endswith(chunk.tail)
        found += [_event(reader, record) for record in chunk.records]
    assert length == len(data)
    return found


def _event(reader: RecordReader, record: RawRecord) -> JobEvent | str:
    try:
        return reader.event(record)
    except AccountingError as error:
        return error.reason


DAMAGE = st.tuples(
    st.integers(0, 3),
    st.floats(0, 1),
    st.integers(0, 60),
    st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b"}"])),
)


@settings(deadline=None, max_examples=80)
@given(st.sampled_from([None, 1]), DAMAGE, st.sampled_from([7, 1000, 10**6]))
def test_a_damaged_record_of_json(indent: int | None, damage: Any, sizes: int) -> None:
    which, where, cut, inserted = damage
    whole = RELEASE.document(*(job(number) for number in range(1, 5)), indent=indent)
    reader = json_reader(whole[:3000])
    expected = read(reader, whole, 10**6)
    assert len(expected) == 4
    begins = [whole.index(b'"job_id": %d,' % number) for number in range(1, 5)]
    first = whole.rindex(b"{", 0, whole.rindex(b'"account"', 0, whole.rindex(b'"association"', 0, begins[which])))
    last = whole.index(b"}", whole.index(b'"user": "ann"', begins[which] + 1))
    at = first + round(where * (last - first))
    damaged = whole[:at] + inserted + whole[min(at + cut, last + 1) :]
    found = read(reader, damaged, sizes)
    others = [event for number, event in enumerate(expected) if number != which]
    assert [event for event in found if event in others] == others
    assert len(found) <= 5


@settings(deadline=None, max_examples=80)
@given(DAMAGE, st.integers(0, 2), st.sampled_from([7, 1000, 10**6]))
def test_a_damaged_row_of_text(damage: Any, row: int, sizes: int) -> None:
    which, where, cut, inserted = damage
    columns = ["JobIDRaw", "JobName", "User", "State", "Submit", "Start", "End", "NodeList"]
    columns += ["TRESUsageInTot", "AllocCPUS"]
    lines = ["\x1f".join(columns)]
    for number in range(1, 5):
        for suffix, user in (("", "ann"), (".batch", ""), (".0", "")):
            fields = [f"{number}{suffix}", "name", user, "COMPLETED", str(NOON), str(NOON), str(NOON + 9)]
            lines.append("\x1f".join([*fields, "n1", f"cpu=1,mem={number}M", "1"]))
    whole = [line.encode() + b"\n" for line in lines]
    header = not_none(header_of(whole[0]))
    reader = text_reader(header)
    expected = read(reader, b"".join(whole), 10**6)
    hit = 1 + which * 3 + row
    line = whole[hit]
    at = round(where * (len(line) - 2))
    damaged = line[:at] + inserted + line[min(at + cut, len(line) - 1) :]
    found = read(reader, b"".join([*whole[:hit], damaged, *whole[hit + 1 :]]), sizes)
    others = [event for number, event in enumerate(expected) if number != which]
    assert [event for event in found if event in others] == others


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=300), st.sampled_from([1, 7, 1000]))
def test_rubbish_is_accounted_for(data: bytes, sizes: int) -> None:
    header = not_none(header_of(b"JobIDRaw|User"))
    for reader in (json_reader(data), text_reader(header)):
        read(reader, data, sizes)
    read(json_reader(b""), b'{"jobs": [' + data + b'{"account": ' * 9 + data, sizes)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in nested dictionaries and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


@pytest.mark.exhaustive
def test_each_field_of_json_damaged(events: Callable[[bytes], list[Any]]) -> None:
    good = job(1)
    (expected,) = events(RELEASE.document(good))
    for path in paths(good):
        records = []
        for hostile in HOSTILE:
            damaged = copy.deepcopy(good)
            place = damaged
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = hostile
            records += [damaged, good]
        found = events(RELEASE.document(*records, indent=None))
        assert len(found) == len(records), path
        assert found[1::2] == [expected] * len(HOSTILE), path


def test_each_column_of_text_damaged(events: Callable[[bytes], list[Any]]) -> None:
    from tests.server.accounting.slurm.test_text import COLUMNS, row, text

    good = [row("7"), row("7.batch")]
    (expected,) = events(text(*good))
    for column in COLUMNS:
        rows = []
        for value in TEXTS:
            rows += [*good, row("8", **{column: value}), row("8.0"), *good, row("9"), row("9.0", **{column: value})]
        found = events(text(*rows, *good))
        assert sum(event == expected for event in found) >= 2 * len(TEXTS) + 1, column
        assert len(found) >= 4 * len(TEXTS) + 1
