"""Batches out of readings: the golden file, the server's own decoder, the same bytes every time."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_agent.batch import AgentCost, in_batches, in_order, pack, to_columns, to_wire
from jobsight_agent.reading import METRICS, GpuReading, Interface, JobUsage, Mark, Reading
from jobsight_server.ingest.wire import decode

GOLDEN = Path(__file__).parents[1] / "golden" / "batch.json"
BOOT = "0b8e6f5c-3f3a-4e0e-9a51-6f9f1d2c7a10"
PORTS = (Interface("eth0", "ethernet", 64, 10**9), Interface("mlx5_0/1", "infiniband", 32, 10**11))
JOBS_GOLDEN = GOLDEN.with_name("batch-jobs.json")
MB = 1_000_000
USES = (
    (JobUsage("4711.server", 40.0, 300 * MB, 20 * MB, 500 * MB, 830 * MB, 830 * MB),),
    (),
    (
        JobUsage("4711.server", 51.5, None, None, None, None, None),
        JobUsage("4712[3].server", None, 5 * MB, 0, MB, 7 * MB),
    ),
    (JobUsage("4711.server", 44.25, 310 * MB, 20 * MB, 900 * MB, 1240 * MB, 1300 * MB),),
)
GPUS = (
    GpuReading("card1", 95, 40_000_000_000, 68_702_699_520),
    GpuReading("card1", 0, 10_854_400, 68_702_699_520),
    GpuReading("card1", 100, None, None),
    GpuReading("card1", None, 40_000_000_000, 68_702_699_520),
)
TIMES = (
    (1700000010.0, (126000, 800), (1500, 0), 2147483648, 110.5, None),
    (1700000000.0, (1000, 400), (500, 0), 2147483648, 100.0, None),
    (1700000020.0, (251000, None), (2500, None), 4294967296, 121.0, None),
    (1700000017.25, (216000, 1200), (2000, 40), None, 118.25, Mark("4711.server", "start")),
)
READINGS = [Reading(t, BOOT, 16, 68719476736, PORTS, i, o, used, cpu, mark) for t, i, o, used, cpu, mark in TIMES]
WITH_JOBS = [
    replace(reading, jobs=jobs, boottime_s=reading.time - 1699913600.0, uncounted=("qedr0/1",), gpus=(gpu,))
    for reading, jobs, gpu in zip(READINGS, USES, GPUS, strict=True)
]
COST = AgentCost("0.1.0", 0.05, 20971520, 4, 0, {"memory": 1}, 0, 0, 0)


def wire(readings: list[Reading], cost: AgentCost = COST) -> dict[str, Any]:
    return to_wire(
        to_columns(readings), cluster="alpha", node="n001", sequence=1700000000, sent_at=1700000030.5, cost=cost
    )


def test_the_golden_batch_is_made_from_readings_in_any_order() -> None:
    assert wire(READINGS) == json.loads(GOLDEN.read_text())
    assert list(wire(READINGS)) == list(json.loads(GOLDEN.read_text()))


def test_the_golden_batch_with_jobs_is_of_format_2() -> None:
    assert json.loads(json.dumps(wire(WITH_JOBS))) == json.loads(JOBS_GOLDEN.read_text())
    assert list(wire(WITH_JOBS)) == list(json.loads(JOBS_GOLDEN.read_text()))
    decode(JOBS_GOLDEN.read_bytes())


def test_no_batch_has_more_jobs_than_the_server_takes() -> None:
    readings = [
        replace(READINGS[0], time=1e9 + i, jobs=tuple(JobUsage(f"{(i * 100 + j)}", 1.0) for j in range(500)))
        for i in range(120)
    ]
    groups = in_batches(readings)
    assert [reading for group in groups for reading in group] == readings
    for group in groups:
        batch = decode(json.dumps(wire(group)).encode())
        assert len(batch.jobs) <= 2000
        assert sum(len(job.index) for job in batch.jobs) <= 20_000
    assert len(groups) < 12


def test_the_same_batch_has_the_same_bytes_without_a_time_in_them() -> None:
    body = pack(wire(READINGS), 6)
    assert body == pack(wire(list(READINGS)), 6)
    assert body[4:8] == bytes(4)  # RFC 1952: MTIME


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 8e9, exclude_max=True), min_size=1, max_size=20), st.integers(1, 4))
def test_times_rise_and_move_no_more_than_they_must(instants: list[float], copies: int) -> None:
    readings = [replace(READINGS[0], time=instant) for instant in instants * copies]
    ordered, times = in_order(readings)
    assert all(a < b for a, b in pairwise(times))
    assert all(0 <= t - r.time + 2e-6 <= 1e-6 * (len(times) + 3) for t, r in zip(times, ordered, strict=True))


def test_one_reading_without_the_memory_does_not_take_it_from_the_batch() -> None:
    lost = replace(READINGS[2], memory_total_bytes=None, memory_used_bytes=None)
    batch = wire([READINGS[0], READINGS[1], lost])
    assert batch["memory_total_bytes"] == 68719476736
    assert batch["memory_used_bytes"] == [2147483648, 2147483648, None]
    assert wire([lost])["memory_total_bytes"] is None


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.sampled_from((*METRICS, "mark", "journal")), st.integers(0, 2**40)), st.integers(0, 2**40))
def test_the_server_reads_the_cost_as_it_was_meant(missed: dict[str, int], count: int) -> None:
    cost = AgentCost("1.2.3", 1.5, count, count + 1, count + 2, missed, count + 3, count + 4, count + 5)
    shown = decode(pack_plain(wire(READINGS, cost))).agent
    assert (shown.version, shown.cpu_seconds, shown.rss_bytes) == ("1.2.3", 1.5, count)
    assert (shown.readings, shown.readings_missed, shown.metrics_missed) == (count + 1, count + 2, missed)
    assert (shown.batches_spooled, shown.batches_dropped, shown.send_failures) == (count + 3, count + 4, count + 5)


def pack_plain(batch: dict[str, Any]) -> bytes:
    return zlib.decompress(pack(batch, 1), wbits=31)


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        pack(wire([replace(READINGS[0], cpu_busy_s=float("nan"))]), 1)
