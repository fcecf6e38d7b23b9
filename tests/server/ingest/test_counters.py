"""Correction of counters: wraps, resets, missing values, in one batch or in several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jobsight_server.ingest.rising import last_of, only_rises
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.readings.counters import EVENTS, corrected
from jobsight_server.storage.readings.sent import BatchInterface, SentRow, pack

MakeBatch = Callable[..., Batch]
Row = tuple[Any, ...]


@dataclass
class Result:
    """The batch's own readings and events, corrected after the batches before."""

    rows: list[Row]
    wraps: int
    resets: int
    boots: int
    missing: int
    sent: list[SentRow]


def correct(batch: Batch, before: Result | None = None) -> Result:
    number = before.sent[-1][1] + 1 if before else 1
    row = (1, number, batch.boot_id, msgspec.json.encode(batch.interfaces), packed(batch))
    sent = [*(before.sent if before else []), row]
    found = corrected(sent)
    own = np.isin(found.columns.time, batch.time)
    return Result(found.columns[own].rows(), *(int(found.events[name][own].sum()) for name in EVENTS), sent)


def packed(batch: Batch) -> bytes:
    return pack((batch.time, batch.cpu_busy_s, batch.boottime_s, None), [batch.memory_used_bytes, *counters(batch)])


def counters(batch: Batch) -> list[Any]:
    return [column for both in zip(batch.bytes_in, batch.bytes_out, strict=True) for column in both]


def net_in(result: Result) -> list[int]:
    return [row[1] for row in result.rows]


def gaps(result: Result) -> list[float]:
    return [row[5] for row in result.rows]


def test_a_32_bit_wrap_is_undone(make_batch: MakeBatch) -> None:
    top = 2**32
    result = correct(make_batch(width=32, bytes_in=[top - 100, top - 50, 70]))
    assert net_in(result) == [0, 50, 170]
    assert result.wraps == 1


def test_a_step_back_that_no_link_could_wrap_is_a_reset(make_batch: MakeBatch) -> None:
    # 10 s at 1 Gb/s move at most 1.25e9 bytes, 1.375e9 with the slack; a wrap here would be 1.395e9.
    result = correct(make_batch(width=32, bytes_in=[2_900_000_000, 1000, 2000]))
    assert net_in(result) == [0, 0, 1000]
    assert gaps(result) == [0.0, 10.0, 10.0]
    assert (result.wraps, result.resets) == (0, 1)


def test_a_64_bit_counter_never_wraps(make_batch: MakeBatch) -> None:
    result = correct(make_batch(bytes_in=[2**32 - 1, 5, 10]))
    assert (net_in(result), result.resets) == ([0, 0, 5], 1)


def test_a_reboot_is_a_gap_and_no_wrap(make_batch: MakeBatch) -> None:
    before = correct(make_batch(width=32, bytes_in=[0, 100, 2**32 - 10]))
    after = make_batch(width=32, boot_id="boot-2", time=[1320.0, 1330.0], bytes_in=[3, 53], cpu_busy_s=[9.0, 10.0])
    result = correct(after, before)
    assert net_in(result) == [2**32 - 10, 2**32 - 10 + 50]
    assert gaps(result) == [300.0, 300.0]
    assert [row[3] for row in result.rows] == [2.0, 3.0]
    assert (result.boots, result.resets, result.wraps) == (1, 0, 0)


def test_a_missing_counter_is_no_value_and_its_traffic_is_not_lost(make_batch: MakeBatch) -> None:
    result = correct(make_batch(bytes_in=[100, None, 400]))
    assert net_in(result) == [0, None, 300]
    assert gaps(result) == [0.0, 0.0, 0.0]
    assert result.missing == 1


def test_two_interfaces_are_summed_and_a_reset_of_one_spoils_the_interval(make_batch: MakeBatch) -> None:
    pair = [BatchInterface("eth0", "ethernet", 64, 1e9), BatchInterface("eth1", "ethernet", 64, 1e9)]
    batch = make_batch(interfaces=pair, bytes_in=[[0, 10, 20], [1000, 0, 7]], bytes_out=[[0, 0, 0], [0, 0, 0]])
    result = correct(batch)
    assert net_in(result) == [0, 0, 17]
    assert gaps(result) == [0.0, 10.0, 10.0]


def test_an_interface_that_appears_makes_that_interval_unknown(make_batch: MakeBatch) -> None:
    before = correct(make_batch())
    pair = [BatchInterface("eth0", "ethernet", 64, 1e9), BatchInterface("ib0", "ethernet", 64, 1e9)]
    batch = make_batch(
        time=[1030.0, 1040.0], interfaces=pair, bytes_in=[[300, 400], [9000, 9050]], bytes_out=[[0, 0], [0, 0]]
    )
    result = correct(batch, before)
    assert net_in(result) == [200, 350]
    assert gaps(result) == [10.0, 10.0]


def test_an_interface_that_is_gone_makes_its_last_interval_unknown(make_batch: MakeBatch) -> None:
    pair = [BatchInterface("eth0", "ethernet", 64, 1e9), BatchInterface("eth1", "ethernet", 64, 1e9)]
    both = make_batch(
        interfaces=pair, bytes_in=[[100, 200, 300], [9000, 9050, None]], bytes_out=[[0, 0, 0], [0, 0, None]]
    )
    before = correct(both)
    assert net_in(before) == [0, 150, None]
    result = correct(make_batch(time=[1030.0, 1040.0], bytes_in=[400, 500], cpu_busy_s=[3.0, 4.0]), before)
    assert gaps(result) == [20.0, 20.0]  # since 1010, when it was read last
    assert net_in(result)[1] - net_in(result)[0] == 100
    assert (result.resets, result.missing) == (1, 0)
    again = correct(
        replace(both, time=[1050.0, 1060.0, 1070.0], bytes_in=[[600, 700, 800], [5, 6, 7]], bytes_out=[[0] * 3] * 2),
        result,
    )
    assert gaps(again) == [30.0, 30.0, 30.0]
    none_left = replace(make_batch(time=[1080.0, 1090.0]), interfaces=[], bytes_in=[], bytes_out=[])
    result = correct(none_left, again)
    assert net_in(result) == [None, None]
    assert gaps(result) == [40.0, 40.0]


@pytest.mark.parametrize("after", [0.0, 5e11])
def test_a_busy_time_that_was_set_back_or_jumps_makes_its_interval_unknown(make_batch: MakeBatch, after: float) -> None:
    busy = [10.0, 40.0, after, after + 30.0]
    batch = make_batch(time=[1000.0, 1030.0, 1060.0, 1090.0], bytes_in=[0, 100, 200, 300], cpu_busy_s=busy)
    result = correct(batch)
    assert [row[3] for row in result.rows] == [0.0, 30.0, 30.0, 60.0]
    assert gaps(result) == [0.0, 0.0, 30.0, 30.0]
    assert net_in(result) == [0, 100, 100, 200]
    assert result.resets == 1


def test_a_busy_time_set_back_while_it_was_not_read_is_unknown_since_it_was(make_batch: MakeBatch) -> None:
    first = correct(make_batch(time=[1000.0, 1030.0], bytes_in=[0, 1], cpu_busy_s=[10.0, None]))
    second = make_batch(sequence=2, time=[1060.0, 1090.0], bytes_in=[2, 3], cpu_busy_s=[None, 4.0])
    result = correct(second, first)
    assert gaps(result) == [0.0, 90.0]
    assert (result.resets, result.missing) == (1, 1)


def test_a_busy_time_that_steps_back_by_a_tick_is_no_reset(make_batch: MakeBatch) -> None:
    result = correct(make_batch(cpu_busy_s=[10.0, 9.99, 12.0]))
    assert [row[3] for row in result.rows] == pytest.approx([0.0, 0.0, 2.01])
    assert (gaps(result), result.resets) == ([0.0, 0.0, 0.0], 0)


@pytest.mark.parametrize("width", [32, 64])
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_wraps_undone_give_back_the_true_counter(data: st.DataObject, width: int) -> None:
    """Oracle: an unbounded counter, of which the node shows the low bits."""
    n = data.draw(st.integers(2, 12))
    start = data.draw(st.integers(0, 2**width - 1))
    steps = data.draw(st.lists(st.integers(0, 10**9), min_size=n - 1, max_size=n - 1))
    true = [start]
    for step in steps:
        true.append(true[-1] + step)
    shown = [value % 2**width for value in true]
    batch = Batch(
        1, "a", "n", "b", 1, 4, [BatchInterface("eth0", "ethernet", width, 1e9)], [10.0 * i for i in range(n)],
        [shown], [[0] * n], [None] * n, [0.0] * n,
    )  # fmt: skip
    cut = data.draw(st.integers(1, n - 1))
    first = correct(_part(batch, 0, cut))
    second = correct(_part(batch, cut, n), first)
    if width == 32 or true[-1] < 2**64:
        assert net_in(first) + net_in(second) == [value - start for value in true]


def _part(batch: Batch, begin: int, end: int) -> Batch:
    part = slice(begin, end)
    return replace(
        batch,
        time=batch.time[part],
        bytes_in=[column[part] for column in batch.bytes_in],
        bytes_out=[column[part] for column in batch.bytes_out],
        memory_used_bytes=batch.memory_used_bytes[part],
        cpu_busy_s=batch.cpu_busy_s[part],
        boottime_s=batch.boottime_s and batch.boottime_s[part],
    )


@given(
    steps=st.lists(st.tuples(st.sampled_from((0, 5, 10**8, 2**40, -3)), st.sampled_from((0.0, 3.5, -0.01, 2e10)),
                             st.sampled_from((1, 1, 1, None)), st.sampled_from((10.0, 10.0, 8.0, 60.0))),
                   min_size=3, max_size=7)
)  # fmt: skip
@settings(deadline=None, max_examples=300)
def test_a_batch_of_which_nothing_is_looked_at_has_nothing_to_undo(steps: list[Any]) -> None:
    """The writer looks closer only where counters do not rise; what only rises has no events and no gap."""
    port = [BatchInterface("mlx5_0/1", "infiniband", 64, 1e10)]
    counts, busy, boottimes = [0], [0.0], [5.0]
    for moved, used, _, passed in steps:
        counts.append(max(0, counts[-1] + moved))
        busy.append(busy[-1] + used)
        boottimes.append(boottimes[-1] + passed)
    n = len(counts)
    memory = [1, *(step[2] for step in steps)]
    batch = Batch(
        1, "a", "n", "b", 1, 4, port, [10.0 * i for i in range(n)], [counts], [counts], memory, busy,
        boottime_s=boottimes,
    )  # fmt: skip
    first, rest = _part(batch, 0, 1), _part(batch, 1, n)
    last = last_of(1, first, counters(first))
    result = correct(rest, correct(first))
    if only_rises(last, 1, rest, counters(rest)):
        assert (result.wraps, result.resets, result.missing, gaps(result)[-1]) == (0, 0, 0, 0.0)
        assert net_in(result) == [row[6] for row in result.rows] == counts[1:]
    else:
        assert not set(steps) <= {(5, 3.5, 1, 10.0), (10**8, 0.0, 1, 10.0)}


def test_infiniband_is_counted_by_itself_and_a_node_without_has_none(make_batch: MakeBatch) -> None:
    pair = [BatchInterface("eth0", "ethernet", 64, 1e9), BatchInterface("hfi1_0/1", "opa", 64, 1e11)]
    columns = {"bytes_in": [[10, 20, None], [400, 800, 1200]], "bytes_out": [[0, 0, 0], [4, 8, 16]]}
    result = correct(make_batch(interfaces=pair, **columns))
    assert [(row[1], row[6], row[7]) for row in result.rows] == [(0, 0, 0), (410, 400, 4), (None, None, 12)]
    after = {"bytes_in": [[40], [2000]], "bytes_out": [[0], [20]]}
    late = correct(make_batch(interfaces=pair, time=[1030.0], cpu_busy_s=[9.0], memory_used_bytes=[1], **after), result)
    assert late.rows[0][1] == 10 + 400 + 400 + 20 + 800
    assert (late.rows[0][6], late.rows[0][7]) == (1600, 16)
    # A reset of one port leaves the interval unknown for both.
    reset = {"bytes_in": [[50], [0]], "bytes_out": [[0], [0]]}
    gone = correct(make_batch(interfaces=pair, time=[1040.0], cpu_busy_s=[9.5], memory_used_bytes=[1], **reset), late)
    assert (gone.rows[0][6], gone.rows[0][5]) == (1600, 10.0)
    assert all(row[6:] == (None, None) for row in correct(make_batch()).rows)


STEPS = st.lists(
    st.tuples(st.floats(1.0, 600.0), st.sampled_from((0.0, 0.0, 0.0, 0.2, -0.2, 3600.0, 400.0, 86400.0))),
    min_size=2,
    max_size=12,
)


@settings(deadline=None, max_examples=80)
@given(STEPS, st.integers(1, 12), st.booleans())
def test_an_interval_in_which_the_clock_was_set_is_unknown(
    steps: list[tuple[float, float]], cut: int, alone: bool
) -> None:
    """In one batch or two, on the fast and the slow path; intervals without a step are known."""
    times, boottimes, counts = [1000.0], [50.0], [0]
    for elapsed, step in steps:
        times.append(times[-1] + elapsed + step)
        boottimes.append(boottimes[-1] + elapsed)
        counts.append(counts[-1] + round(100 * elapsed))
    plain = {"format": 1, "cluster": "a", "node": "n", "boot_id": "b", "cpus": 4}
    result: list[tuple[float, int, float, float]] = []
    state = None
    for number, part in enumerate((slice(0, cut), slice(cut, None))):
        if not times[part]:
            continue
        batch = Batch(
            **plain, sequence=number, interfaces=[BatchInterface("eth0", "ethernet", 64, 1e10)], time=times[part],
            bytes_in=[counts[part]], bytes_out=[counts[part]], memory_used_bytes=[1] * len(times[part]),
            cpu_busy_s=[2.0 * b for b in boottimes[part]], boottime_s=None if alone else boottimes[part],
        )  # type: ignore[arg-type]  # fmt: skip
        state = correct(batch, state)
        result += [(row[0], row[1] or 0, row[3] or 0.0, row[5]) for row in state.rows]
    assert [row[0] for row in result] == times
    for (elapsed, step), (t0, in0, cpu0, gap0), (t1, in1, cpu1, gap1) in zip(steps, result, result[1:], strict=False):
        is_set = abs(step) > 1.0 + 0.1 * elapsed and not alone
        assert gap1 - gap0 == pytest.approx(t1 - t0 if is_set else 0.0, abs=1e-6)
        if not is_set:
            assert in1 - in0 == pytest.approx(100 * elapsed, abs=2)
            assert cpu1 - cpu0 == pytest.approx(2.0 * elapsed, abs=1e-6)
