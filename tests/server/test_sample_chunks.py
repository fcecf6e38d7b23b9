"""Readings in chunks: every reader finds in them what it finds in rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from jobsight_server.ingest.merging import as_row, pack_samples
from jobsight_server.queries.timeline import timeline
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.storage.sample_columns import MASK, MODULUS, NAMES, SampleColumns, Totals, joined
from jobsight_server.storage.samples import CHUNK_S, last_memory, read_samples
from jobsight_server.storage.size_cap import keep_size
from jobsight_server.storage.upkeep import delete_old

Row = tuple[Any, ...]
DAY_S = 86400.0
_INSERT = "INSERT INTO samples (node_id, {}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)".format(", ".join(NAMES))
_totals = st.none() | st.integers(0, MASK)
_seconds = st.floats(-1e18, 1e18) | st.floats(0, 1e10).map(lambda value: round(value, 6))
_rows = st.lists(
    st.tuples(
        _seconds, _totals, _totals, st.none() | st.floats(0, 1e15), st.none() | st.integers(0, 2**53), _seconds,
        _totals, _totals,
    ),
    unique_by=lambda row: row[0], max_size=20,
)  # fmt: skip


def same(found: SampleColumns, expected: SampleColumns) -> None:
    for name in NAMES:
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        if name == "cpu_busy_s":
            np.testing.assert_allclose(one, other, rtol=1e-15, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


@given(_rows)
def test_what_was_packed_comes_back(rows: list[Row]) -> None:
    columns = SampleColumns.of_rows(sorted(rows))
    same(SampleColumns.unpack(columns.pack()), columns)


def test_a_packed_reading_takes_a_few_bytes() -> None:
    rng = random.Random(1)
    total, rows = 2**61, []
    for number in range(2160):
        total += rng.randrange(10**7)
        rows.append((1.7e9 + 10.0 * number, total % MODULUS, total % MODULUS, 14.25 * number, 2**33, 0.0, None, None))
    assert len(SampleColumns.of_rows(rows).pack()) / len(rows) < 8.0


def test_amounts_are_added_where_they_belong_and_to_what_is_known() -> None:
    rows = [(float(time), time or None, MASK, None, 5, 0.0, None, 7) for time in range(4)]
    columns = SampleColumns.of_rows(rows)
    moved = columns.plus(columns.between(0.0, 2.0), Totals(10, 1, 3.0, 0.5, 4, 0))
    assert moved.net_in_bytes.tolist() == [-1, 11, 2, 3]
    assert moved.net_out_bytes.tolist() == [0, 0, MASK, MASK]
    assert np.isnan(moved.cpu_busy_s).all()
    assert (moved.gap_s.tolist(), moved.ib_in_bytes.tolist()) == ([0.5, 0.5, 0.0, 0.0], [-1] * 4)
    assert columns.net_in_bytes.tolist() == [-1, 1, 2, 3]


def some_days(rng: random.Random, days: float = 2.0, step_s: float = 60.0) -> list[Row]:
    """Readings of a node that was silent at times and did not always say everything."""
    rows, time, totals = [], rng.random() * 1e6, [0, 0]
    end = time + days * DAY_S
    while time < end:
        totals = [total + rng.randrange(10**10) for total in totals]
        memory = None if rng.random() < 0.3 else rng.randrange(2**36)
        out = None if rng.random() < 0.1 else totals[1]
        rows.append((time, totals[0], out, round(time / 3, 2), memory, 0.0, None, None))
        time += rng.choice((step_s, step_s, step_s, step_s * 1.5, 20_000.0 if rng.random() < 0.02 else step_s))
    return rows


def store(connection: Connection, node_id: int, rows: Sequence[Row]) -> None:
    write_many(connection, _INSERT, [(node_id, *row) for row in rows])


@pytest.mark.storage
def test_readers_find_in_chunks_what_they_find_in_rows(engine: Engine) -> None:
    """Node 1 has rows alone. Of node 2, some came when the others had been packed."""
    rng = random.Random(7)
    rows = some_days(rng)
    late = set(rng.sample(range(len(rows)), len(rows) // 10))
    with engine.begin() as connection:
        store(connection, 1, rows)
        store(connection, 2, [row for number, row in enumerate(rows) if number not in late])
        while pack_samples(connection, 2):
            pass
        store(connection, 2, [rows[number] for number in late])
    for round_number in range(2):
        with engine.connect() as connection:
            in_rows = "SELECT count(*) FROM samples WHERE node_id = 2"
            assert connection.execute(text(in_rows)).scalar_one() < (0.4, 0.3)[round_number] * len(rows)
            for _ in range(40):
                since = rows[0][0] + (rng.random() * 2.4 - 0.2) * DAY_S
                until = since + rng.choice((10.0, 3600.0, DAY_S))
                one, two = (read_samples(connection, node, since, until) for node in (1, 2))
                same(two, one)
                _holds_five_around(read_samples(connection, 2, since, until, 5), rows, since, until)
                found, expected = (last_memory(connection, node, since, until) for node in (2, 1))
                assert found == expected
                for points in (3, 50, 5000):
                    plain, packed = (timeline(connection, node, since, until, 16, points) for node in (1, 2))
                    assert packed.time == plain.time
                    for name in ("in_bps", "out_bps", "memory_used_bytes", "cpu_utilisation"):
                        a, b = (np.array(getattr(line, name), dtype=float) for line in (packed, plain))
                        np.testing.assert_allclose(a, b, rtol=1e-6)
        with engine.begin() as connection:  # the late ones, too
            while pack_samples(connection, 2):
                pass


def _holds_five_around(found: SampleColumns, rows: list[Row], since: float, until: float) -> None:
    times = [row[0] for row in rows]
    before, after = [time for time in times if time < since][-5:], [time for time in times if time > until][:5]
    wanted = [*before, *(time for time in times if since <= time <= until), *after]
    assert set(wanted) <= set(found.time.tolist())
    of_row = dict(zip(times, rows, strict=True))
    same(found, SampleColumns.of_rows([of_row[time] for time in found.time.tolist()]))


@pytest.mark.storage
def test_of_two_readings_at_one_time_the_packed_one_counts_once(engine: Engine) -> None:
    rows = [(60.0 * i, i, i, float(i), 5, 0.0, None, None) for i in range(1000)]
    with engine.begin() as connection:
        store(connection, 1, rows)
        while pack_samples(connection, 1):
            pass
        store(connection, 1, [(time, 99, *rest) for time, _, *rest in rows[10:13]])
        before = read_samples(connection, 1, 0.0, 1e9)
        assert pack_samples(connection, 1)
        after = read_samples(connection, 1, 0.0, 1e9)
        same(before, SampleColumns.of_rows(rows))
        same(after, before)
        assert read_event_counts(connection) == {("samples_stored", ""): -3, ("samples_overlapping", ""): 3}


@pytest.mark.storage
def test_the_newest_readings_stay_rows_and_chunks_are_bounded(engine: Engine) -> None:
    with engine.begin() as connection:
        store(connection, 1, [(float(i), i, i, float(i), 5, 0.0, None, None) for i in range(int(CHUNK_S + 3599))])
        assert not pack_samples(connection, 1)
        store(connection, 1, [(CHUNK_S + 3600.0, 1, 1, 1.0, 5, 0.0, None, None)])
        while pack_samples(connection, 1):
            pass
        chunks = connection.execute(text("SELECT samples, first_time, last_time FROM sample_chunks ORDER BY 2")).all()
        assert sum(row.samples for row in chunks) == CHUNK_S == chunks[-1].last_time + 1
        assert max(row.samples for row in chunks) <= 4096
        assert connection.execute(text("SELECT min(time) FROM samples")).scalar() == CHUNK_S


@pytest.mark.exhaustive
@pytest.mark.storage
def test_chunks_go_with_age_and_where_the_database_is_to_be_smaller(engine: Engine) -> None:
    def chunk(begin: float, readings: int) -> Row:
        rng = random.Random(begin)
        rows = [(begin + i, rng.randrange(MASK), 0, 0.0, 0, 0.0, None, None) for i in range(readings)]
        return as_row(1, SampleColumns.of_rows(rows))

    insert = "INSERT INTO sample_chunks (node_id, first_time, last_time, samples, packed) VALUES (?, ?, ?, ?, ?)"
    with engine.begin() as connection:
        write_many(connection, insert, [chunk(day * DAY_S, 2000) for day in range(40)])
    assert delete_old(engine, 10 * DAY_S) == 20_000
    assert delete_old(engine, 10 * DAY_S + 1000.0) == 0  # half of the next one is newer
    with engine.connect() as connection:
        assert connection.execute(text("SELECT min(first_time), count(*) FROM sample_chunks")).one() == (10 * DAY_S, 30)
    assert keep_size(engine, 1, 40 * DAY_S) == 29 * 2000
    with engine.connect() as connection:
        assert connection.execute(text("SELECT min(first_time), count(*) FROM sample_chunks")).one() == (39 * DAY_S, 1)


def test_nothing_joined_is_nothing() -> None:
    assert len(joined([])) == 0
