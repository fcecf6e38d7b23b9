"""Readings deleted by retention are kept as minimum, mean and maximum of each hour and day."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from tests import make

from jobsight_server.queries.timeline import timeline
from jobsight_server.storage.readings.sample_columns import MODULUS, SampleColumns
from jobsight_server.storage.readings.samples import CHUNK_S, read_samples
from jobsight_server.storage.readings.size_cap import keep_size
from jobsight_server.storage.readings.summarise import (
    HOURS_KEPT_S,
    QUANTITIES,
    Period,
    Summary,
    merged,
    read_summaries,
    summarise,
)
from jobsight_server.storage.upkeep import delete_old

Row = tuple[Any, ...]
Oracle = dict[float, dict[str, list[tuple[float, float]]]]  # by period and quantity: values and weights
HOUR_S, DAY_S = 3600.0, 86400.0


def readings_of_days(rng: random.Random, days: float, step_s: float = 120.0, modulus: int = MODULUS) -> list[Row]:
    """Readings of a node with gaps, boots with unknown seconds, missing values, and totals that wrap."""
    begin = 40 * DAY_S + rng.random() * HOUR_S
    rows, time, gap = [], begin, 0.0
    total_in, total_out, busy = MODULUS - 10**12, 17, 3.0
    while time < begin + days * DAY_S:
        unknown = rng.random()
        rows.append((
            round(time, 3), total_in % modulus if unknown > 0.1 else None, total_out % modulus,
            busy if unknown < 0.9 else None, rng.randrange(2**36) if rng.random() < 0.8 else None, gap, None, None,
        ))  # fmt: skip
        passed = rng.choice((step_s, step_s, step_s * 1.5, 9000.0 if rng.random() < 0.02 else step_s))
        if rng.random() < 0.03:  # booted
            gap += passed
        time, total_in, total_out = time + passed, total_in + rng.randrange(10**11), total_out + rng.randrange(10**9)
        busy += rng.random() * passed
    return rows


def by_hand(rows: Sequence[Row], length_s: float, following: Row | None = None) -> Oracle:
    """In plain Python, with whole numbers that have no bound."""
    found: Oracle = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[4] is not None:
            found[row[0] // length_s * length_s]["memory_used_bytes"].append((float(row[4]), 1.0))
    for one, other in zip(rows, [*rows[1:], *([following] if following else [])], strict=False):
        known_s = (other[0] - one[0]) - (other[5] - one[5])
        period = found[other[0] // length_s * length_s] if known_s > 1e-3 else {}
        for name, column, factor in (("in_bps", 1, 8.0), ("out_bps", 2, 8.0), ("cpus_busy", 3, 1.0)):
            if known_s > 1e-3 and one[column] is not None and other[column] is not None:
                risen = other[column] - one[column]
                if column < 3 and risen < 0:
                    risen += MODULUS
                period[name].append((risen * factor / known_s, known_s))
    return {begin: values for begin, values in found.items() if values}


def holds(found: Sequence[Summary], expected: Oracle) -> None:
    assert [summary.first_time for summary in found] == sorted(expected)
    for summary in found:
        for name in QUANTITIES:
            spread, values = getattr(summary, name), expected[summary.first_time].get(name)
            if not values:
                assert spread is None, (summary.first_time, name)
                continue
            weight = math.fsum(seconds for _, seconds in values)
            mean = math.fsum(value * seconds for value, seconds in values) / weight
            wanted = (min(value for value, _ in values), mean, max(value for value, _ in values), weight)
            assert (spread.least, spread.mean, spread.most, spread.weight) == pytest.approx(wanted, rel=1e-6, abs=1e-5)


def store(connection: Connection, node_id: int, rows: Sequence[Row], most: int = 40) -> None:
    """Store the readings in batches of less than six hours."""
    begin = 0
    while begin < len(rows):
        some = [row for row in rows[begin : begin + most] if row[0] - rows[begin][0] <= CHUNK_S]
        make.readings(connection, node_id, some, sequence=begin)
        begin += len(some)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length_s", [HOUR_S, DAY_S])
def test_summaries_are_those_computed_by_hand(seed: int, length_s: float) -> None:
    rows = readings_of_days(random.Random(seed), 3.0)
    holds(summarise(SampleColumns.of_rows(rows), len(rows), length_s), by_hand(rows, length_s))
    half = summarise(SampleColumns.of_rows(rows), 700, length_s)
    holds(half, by_hand(rows[:700], length_s, rows[700]))
    rest = summarise(SampleColumns.of_rows(rows[700:]), len(rows) - 700, length_s)
    holds(merged([*rest, *half], length_s), by_hand(rows, length_s))


@pytest.mark.storage
@pytest.mark.parametrize("by_size", [False, True])
def test_what_retention_deletes_is_summarised_once_however_it_is_stored(engine: Engine, by_size: bool) -> None:
    """Two nodes, one with a row for each reading; in steps that end anywhere."""
    rng = random.Random(3)
    rows = readings_of_days(rng, 5.0, modulus=2**64)
    with engine.begin() as connection:
        store(connection, 1, rows)
        for number, row in enumerate(rows):
            make.readings(connection, 2, [row], sequence=number)
    before = rows[0][0]
    while before < rows[-1][0]:
        before += rng.random() * 5 * HOUR_S
        delete_old(engine, before)
        with engine.connect() as connection:
            kept = read_samples(connection, 1, before, 1e12).time.tolist()
        assert kept == [row[0] for row in rows if row[0] >= before]
        if by_size and before > rows[0][0] + DAY_S:
            keep_size(engine, 1, rows[-1][0])
            break
    if not by_size:
        delete_old(engine, rows[-1][0] + 1.0)
    with engine.connect() as connection:
        for node_id in (1, 2):
            left = set(read_samples(connection, node_id, 0.0, 1e12).time.tolist())
            gone = [row for row in rows if row[0] not in left]
            assert gone == rows[: len(gone)], "what is left is the newest"
            assert bool(left) == by_size
            following = rows[len(gone)] if left else None
            periods: tuple[tuple[Period, float], ...] = (("hour", HOUR_S), ("day", DAY_S))
            for period, length_s in periods:
                expected = by_hand(gone, length_s, following)
                holds(read_summaries(connection, node_id, period), expected)


@pytest.mark.exhaustive
@pytest.mark.storage
def test_hours_go_after_a_year_and_days_stay(engine: Engine) -> None:
    rows = [(time * 600.0, time * 10**6, 0, 0.0, 1, 0.0, None, None) for time in range(3 * 144 + 1)]
    with engine.begin() as connection:
        connection.execute(text(
            "INSERT INTO nodes (id, cluster, name, boot_id, cpus, interfaces, agent, first_time, last_time, "
            "received_at, samples, wraps, resets, boots, missing) "
            "VALUES (1, 'alpha', 'n1', 'b', 4, '[]', '{}', 0, 0, 0, 0, 0, 0, 0, 0)"
        ))  # fmt: skip
        store(connection, 1, rows)
    delete_old(engine, 3 * DAY_S)
    delete_old(engine, HOURS_KEPT_S + DAY_S)
    with engine.connect() as connection:
        hours, days = (read_summaries(connection, 1, period) for period in ("hour", "day"))
        assert [hour.first_time for hour in hours] == [DAY_S + HOUR_S * number for number in range(2 * 24 + 1)]
        assert [day.first_time for day in days] == [0.0, DAY_S, 2 * DAY_S, 3 * DAY_S]


@pytest.mark.storage
def test_a_timeline_goes_on_where_readings_are_deleted(engine: Engine) -> None:
    """8 Gbit/s in odd hours and 2 in even ones; two of four processors are busy."""
    rows, total = [], 0
    for minute in range(10 * 1440 + 1):
        rows.append((minute * 60.0, total, None, minute * 120.0, 5, 0.0, None, None))
        total += 60 * (10**9 if minute // 60 % 2 else 25 * 10**7)
    with engine.begin() as connection:
        store(connection, 1, rows, most=30)
    cut = 9 * DAY_S + 1800.0
    with engine.connect() as connection:
        whole = timeline(connection, 1, 8.5 * DAY_S, 9.5 * DAY_S, 4, 24)
    delete_old(engine, cut)
    with engine.connect() as connection:
        joined = timeline(connection, 1, 8.5 * DAY_S, 9.5 * DAY_S, 4, 500)
        assert joined.time == sorted(set(joined.time))
        assert joined.time[:13] == [8.5 * DAY_S + HOUR_S * hour for hour in range(1, 13)] + [cut]
        assert joined.time[-1] == 9.5 * DAY_S
        # An interval belongs to the hour of its end: of an even hour one minute in sixty is of the odd one before.
        assert joined.in_bps[:4] == pytest.approx([2.1e9, 7.9e9, 2.1e9, 7.9e9])
        assert set(joined.out_bps) == {None}
        assert set(joined.memory_used_bytes) == {5}
        assert joined.cpu_utilisation == pytest.approx([0.5] * len(joined.time))
        for one, other in zip(joined.in_bps[:12], whole.in_bps[:12], strict=True):
            assert one == pytest.approx(other, rel=0.06)

        early = timeline(connection, 1, 1.0 * DAY_S, 2.0 * DAY_S, 4)
        assert early.time == [DAY_S + HOUR_S * hour for hour in range(1, 25)]
        days = timeline(connection, 1, 0.0, 9 * DAY_S, 4, 10)
        assert days.time == [DAY_S * day for day in range(1, 10)]
        assert days.in_bps[1:] == pytest.approx([5e9] * 8, rel=1e-6)
        assert len(timeline(connection, 1, 0.0, 10 * DAY_S, 4, 50).time) <= 52
        assert timeline(connection, 1, DAY_S, DAY_S + 60.0, 4).time == [], "no whole hour"
    delete_old(engine, 11 * DAY_S)
    with engine.connect() as connection:
        assert timeline(connection, 1, 9.0 * DAY_S, 9.25 * DAY_S, 4).time == [
            9 * DAY_S + HOUR_S * hour for hour in range(1, 7)
        ]
