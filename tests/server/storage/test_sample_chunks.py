"""Readings that share rows: every reader gets the same as from separate rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine
from tests import make

from jobsight_server.queries.timeline import timeline
from jobsight_server.storage.readings.sample_columns import NAMES, TOTALS, UNKNOWN, WHOLE, SampleColumns, difference
from jobsight_server.storage.readings.samples import CHUNK_S, read_samples
from jobsight_server.storage.readings.sent import deflate, pack, unpack

Row = tuple[Any, ...]
DAY_S = 86400.0
_counters = st.none() | st.integers(0, 2**64 - 2)
_seconds = st.floats(-1e18, 1e18) | st.floats(0, 1e10).map(lambda value: round(value, 6))
_rows = st.lists(
    st.tuples(
        _seconds, st.none() | st.floats(0, 1e15), st.none() | st.floats(0, 1e9), st.none() | st.integers(0, 2**62),
        _counters, _counters,
    ),
    max_size=20,
)  # fmt: skip


def same(found: SampleColumns, expected: SampleColumns) -> None:
    for name in NAMES:
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        if name in ("cpu_busy_s", "gap_s"):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


@given(_rows, _rows, st.lists(st.tuples(_seconds, st.integers(0, 10**6)), min_size=1, max_size=9))
def test_what_was_packed_comes_back(some: list[Row], more: list[Row], rising: list[tuple[float, int]]) -> None:
    """Of several batches at once: with any values, with small rises, and with no reading."""
    batches = [some, more, [(at, at, None, n, 2**63 + n, n) for at, n in rising]]
    packed = []
    for rows in batches:
        time, busy, boottime, *whole = list(zip(*rows, strict=True)) or [()] * 6
        packed.append(pack((time, busy, boottime, None), whole))
    seconds, whole = unpack(packed, 1)
    rows = [row for batch in batches for row in batch]
    for column, expected in zip([*seconds[:3], *whole.view(np.uint64)], zip(*rows, strict=True), strict=True):
        unknown = np.nan if column.dtype == np.float64 else 2**64 - 1
        assert_same(column.tolist(), [unknown if value is None else value for value in expected])
    assert set(seconds[3].tolist()) == {0.0}
    again = unpack([deflate(seconds, whole)], 1)
    assert_same(again[1].tolist(), whole.tolist())
    assert_same(again[0][0].tolist(), seconds[0].tolist())
    np.testing.assert_allclose(again[0], seconds, rtol=1e-15, atol=1e-6)


def assert_same(found: list[Any], expected: list[Any]) -> None:
    known = [(one, other) for one, other in zip(found, expected, strict=True) if one == one or other == other]
    assert [one for one, _ in known] == [other for _, other in known]


def test_a_packed_reading_takes_a_few_bytes() -> None:
    rng = random.Random(1)
    count, rows = 2**61, []
    for number in range(2160):
        count += rng.randrange(10**7)
        rows.append((1.7e9 + 10.0 * number, 14.25 * number, 2**33, count, count))
    time, busy, *whole = zip(*rows, strict=True)
    seconds, numbers = unpack([pack((time, busy, None, None), whole)], 1)
    assert len(deflate(seconds, numbers)) / len(rows) < 8.0


def some_days(rng: random.Random, days: float = 2.0, step_s: float = 60.0) -> list[Row]:
    """Readings of a node with silences and missing values."""
    rows, time, totals = [], rng.random() * 1e6, [0, 0]
    end = time + days * DAY_S
    while time < end:
        totals = [total + rng.randrange(10**10) for total in totals]
        memory = None if rng.random() < 0.3 else rng.randrange(2**36)
        out = None if rng.random() < 0.1 else totals[1]
        rows.append((time, totals[0], out, round(time / 3, 2), memory, 0.0, None, None))
        time += rng.choice((step_s, step_s, step_s, step_s * 1.5, 20_000.0 if rng.random() < 0.02 else step_s))
    return rows


def store(connection: Connection, node_id: int, rows: Sequence[Row], lengths: Callable[[], int]) -> None:
    """In rows of some readings each; a long one is compressed."""
    begin = 0
    while begin < len(rows):
        some = rows[begin : begin + lengths()]
        some = [row for row in some if row[0] - some[0][0] <= CHUNK_S]
        make.readings(connection, node_id, some, sequence=begin, deflated=len(some) >= 50)
        begin += len(some)


@pytest.mark.storage
def test_readers_find_in_chunks_what_they_find_in_rows(engine: Engine) -> None:
    """Each reading of node 1 has a row; those of node 2 share rows of few and of many."""
    rng = random.Random(7)
    rows = some_days(rng)
    with engine.begin() as connection:
        store(connection, 1, rows, lambda: 1)
        store(connection, 2, rows, lambda: rng.choice((1, 3, 3, 10, 400)))
    with engine.connect() as connection:
        for _ in range(40):
            since = rows[0][0] + (rng.random() * 2.4 - 0.2) * DAY_S
            until = since + rng.choice((10.0, 3600.0, DAY_S))
            same(*(from_first(read_samples(connection, node, since, until)) for node in (2, 1)))
            _holds_five_around(read_samples(connection, 2, since, until, 5), rows, since, until)
            for points in (3, 50, 5000):
                plain, packed = (timeline(connection, node, since, until, 16, points) for node in (1, 2))
                assert packed.time == plain.time
                for name in ("in_bps", "out_bps", "memory_used_bytes", "cpu_utilisation"):
                    a, b = (np.array(getattr(line, name), dtype=float) for line in (packed, plain))
                    np.testing.assert_allclose(a, b, rtol=1e-6)


def from_first(columns: SampleColumns) -> SampleColumns:
    """With totals since the first reading that has each."""
    changed = {}
    for name in TOTALS:
        column = getattr(columns, name)
        known = column != UNKNOWN if name in WHOLE else ~np.isnan(column)
        if known.any():
            changed[name] = np.where(known, difference(column, column[known.argmax()]), column)
    return replace(columns, **changed)


def _holds_five_around(found: SampleColumns, rows: list[Row], since: float, until: float) -> None:
    times = [row[0] for row in rows]
    before, after = [time for time in times if time < since][-5:], [time for time in times if time > until][:5]
    wanted = [*before, *(time for time in times if since <= time <= until), *after]
    assert set(wanted) <= set(found.time.tolist())
    of_row = dict(zip(times, rows, strict=True))
    expected = SampleColumns.of_rows([of_row[time] for time in found.time.tolist()])
    same(from_first(found), from_first(expected))
