"""The arithmetic of one job on one node, against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none
from tests.server.profiler.conftest import reason

from jobsight_server.profiler.runs import Boundaries, Readings, boundaries, to_readings
from jobsight_server.profiler.usage import JobInterval, Missing, Rates, cpu, network
from jobsight_server.storage.readings.sample_columns import SampleColumns

GIB = 2**30


def readings_of(rows: Sequence[Sequence[Any]]) -> Readings:
    return to_readings(SampleColumns.of_rows(rows))


def steady(times: Sequence[float], in_rate: float = 100.0, out_rate: float = 40.0) -> Readings:
    """Readings of a node that moves bytes at constant rates; counters start anywhere, below zero even."""
    return readings_of([(t, int(in_rate * t) - 5000, int(out_rate * t), 2.0 * t, GIB, 7.0) for t in times])


def rates(found: Rates | Missing) -> Rates:
    assert isinstance(found, Rates), found
    return found


def test_a_life_between_readings_is_interpolated() -> None:
    # 1000 B/s until 60, 4000 B/s from 60 to 120, nothing after; the life is 30 .. 150.
    readings = readings_of(
        [(0, 0, 0, 0, 0, 0), (60, 60_000, 0, 0, 0, 0), (120, 300_000, 0, 0, 0, 0), (180, 300_000, 0, 0, 0, 0)]
    )
    found = rates(network(readings, JobInterval(30, 150, 1), []))
    assert found.mean.tolist() == pytest.approx([(30_000 + 240_000) / 120, 0])
    assert not_none(found.peak).tolist() == pytest.approx([4000, 0])


def test_counters_beyond_a_doubles_digits_keep_their_difference() -> None:
    base = 2**62 + 1
    readings = readings_of([(0, base, base, 0, 0, 0), (5, base + 5, base, 0, 0, 0), (10, base + 10, base + 3, 0, 0, 0)])
    assert rates(network(readings, JobInterval(0, 10, 1), [])).mean.tolist() == pytest.approx([1.0, 0.3])


def test_time_of_which_nothing_is_known_does_not_count() -> None:
    # A reboot between 300 and 340: the counters stand still and the gap rises by 40 of the 600 s.
    rows = [(float(t), 100 * t, 0, 2.0 * t, 0, 0.0) for t in range(0, 301, 60)]
    rows += [(float(t), 100 * (t - 40), 0, 2.0 * (t - 40), 0, 40.0) for t in range(340, 701, 60)]
    readings = readings_of(rows)
    assert rates(network(readings, JobInterval(0, 600, 1), [])).mean[0] == pytest.approx(100)
    assert rates(cpu(readings, JobInterval(0, 600, 1), [])).mean[0] == pytest.approx(2)
    # Of a life of 300 s the same gap is more than a tenth.
    assert "more than 10 % of its life unknown" in reason(network(readings, JobInterval(200, 500, 1), []))


def test_a_reboot_that_ends_the_job_counts_until_the_last_reading() -> None:
    rows = [(float(t), 100 * t, 0, 0.0, 0, 0.0) for t in range(0, 961, 60)]
    rows += [(1300.0, 96_000, 0, 0.0, 0, 340.0), (1360.0, 96_000, 0, 0.0, 0, 340.0)]
    found = rates(network(readings_of(rows), JobInterval(0, 1000, 1), []))
    assert found.mean[0] == pytest.approx(100)
    # The same where the node never came back.
    assert rates(network(readings_of(rows[:-2]), JobInterval(0, 1000, 1), [])).mean[0] == pytest.approx(100)


def test_a_reading_without_the_metric_is_bridged_by_its_neighbours() -> None:
    rows = [(float(t), 100 * t, 0, 1.0 * t, GIB, 0.0) for t in range(0, 241, 60)]
    rows[2] = (120.0, None, None, 120.0, None, 0.0)
    rows[3] = (180.0, 18_000, 0, None, GIB, 0.0)
    readings = readings_of(rows)
    assert rates(network(readings, JobInterval(50, 230, 1), [])).mean[0] == pytest.approx(100)
    assert rates(cpu(readings, JobInterval(60, 240, 1), [])).mean[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("readings", "interval", "expected"),
    [
        (readings_of([]), JobInterval(0, 10, 1), "no samples of n1"),
        (readings_of([(5, None, None, 0, 0, 0)]), JobInterval(0, 10, 1), "no network readings of n1"),
        (steady([500.0]), JobInterval(0, 1000, 1), "fewer than 2 network readings of n1 around its life"),
        (steady([0.0, 60.0]), JobInterval(100, 200, 1), "fewer than 2 network readings of n1 around its life"),
        # Both boundaries between the same two readings: the interval's mean says nothing about a part of it.
        (steady([0.0, 60.0]), JobInterval(20, 40, 1), "fewer than 2 network readings of n1 around its life"),
        # Readings end long before the job does.
        (
            steady([0, 60, 120]),
            JobInterval(0, 1000, 1),
            "network readings of n1 leave more than 10 % of its life unknown",
        ),
        # A day without readings around the end of a life of five minutes.
        (steady([0, 60, 120, 86_400]), JobInterval(0, 300, 1), "leave more than 10 % of its life unknown"),
        (
            readings_of([(0, 100, 0, 0, 0, 0), (60, 90, 0, 0, 0, 0), (120, 200, 0, 0, 0, 0)]),
            JobInterval(0, 120, 1),
            "the network counters of n1 run backwards",
        ),
    ],
)
def test_what_cannot_be_told_has_a_reason(readings: Readings, interval: JobInterval, expected: str) -> None:
    assert expected in reason(network(readings, interval, []))


def test_two_marks_alone_are_enough() -> None:
    assert rates(network(steady([100.0, 120.0]), JobInterval(100, 120, 1), [])).mean.tolist() == pytest.approx(
        [100, 40]
    )


def test_shared_pieces_are_split_by_processors_held() -> None:
    # 100 B/s. Alone 0-60; from 60 to 90 beside a job of 3 processors; from 80 to 120 also beside one of 4.
    readings = steady([0, 60, 120])
    others = [JobInterval(60, 90, 3), JobInterval(80, 200, 4)]
    found = rates(network(readings, JobInterval(0, 120, 1), others))
    expected = 60 * 100 + 20 * 100 / 4 + 10 * 100 / 8 + 30 * 100 / 5
    assert found.mean[0] == pytest.approx(expected / 120)
    assert found.peak is not None
    assert found.peak[0] == pytest.approx(100)


rate = st.integers(0, 10_000)
jobs_on_node = st.lists(st.tuples(st.integers(0, 250), st.integers(1, 250), st.integers(1, 16)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 90), rate), min_size=2, max_size=30), jobs_on_node)
def test_the_parts_add_up_to_the_whole(pieces: list[tuple[int, int]], jobs: list[tuple[int, int, int]]) -> None:
    """Whatever the traffic, the jobs' parts add up to the traffic while there was any job."""
    per_second = [in_rate for seconds, in_rate in pieces for _ in range(seconds)][:500]
    per_second += [0] * (500 - len(per_second))
    total = [0, *accumulate(per_second)]
    readings = readings_of([(float(t), total[t], 0, 0.0, 0, 0.0) for t in range(501)])
    intervals = [JobInterval(float(start), float(start + length), held) for start, length, held in jobs]
    attributed = 0.0
    for index, interval in enumerate(intervals):
        others = intervals[:index] + intervals[index + 1 :]
        attributed += float(rates(network(readings, interval, others)).mean[0]) * (interval.end - interval.start)
    busy = {t for start, length, _ in jobs for t in range(start, start + length)}
    assert attributed == pytest.approx(sum(per_second[t] for t in busy), rel=1e-9, abs=1e-6)


def test_marks_win_over_the_schedulers_times_and_cancel_skew() -> None:
    # The node's clock is 2.5 s ahead.
    seen = [("start", 1002.5), ("end", 1602.5)]
    assert boundaries(seen, 1000, 1600) == Boundaries(1002.5, 1602.5, True, True, 2.5)
    assert boundaries(seen[:1], 1000, 1600) == Boundaries(1002.5, 1602.5, True, False, 2.5)
    assert boundaries(seen[1:], 1000, 1600) == Boundaries(1002.5, 1602.5, False, True, 2.5)
    assert boundaries([], 1000, 1600) == Boundaries(1000, 1600)


def test_marks_of_other_runs_of_the_same_job_are_left_alone() -> None:
    # Killed by a reboot at 1200 (no end mark), queued again, and run from 1300 to 1400.
    seen = [("start", 1000.0), ("start", 1300.0), ("end", 1400.0)]
    assert boundaries(seen, 1000, 1200, next_start=1300) == Boundaries(1000, 1200, True, False)
    assert boundaries(seen, 1300, 1400) == Boundaries(1300, 1400, True, True)
    assert boundaries([("start", 100.0), ("end", 90_000.0)], 1000, 1600) == Boundaries(1000, 1600)
