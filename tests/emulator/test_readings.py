"""The readings of emulated nodes: boots, wraps, late and doubled batches. (That they add up to the truth of jobs is
proved in ``tests/server/profiler/test_truth.py``.)"""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import Any

import pytest

from jobsight_emulator.emulation import Emulation, make_emulation
from jobsight_emulator.plan import Faults, SitePlan

END = 1_700_000_040
DAY_S = 86_400
PLAN = SitePlan(
    16, 2, END - 3 * DAY_S, END, seed=5, faults=Faults(outage_every_s=2 * DAY_S, late_batches=0.05, lost_marks=0.01)
)
STEP_S = 92 * 60

Batch = dict[str, Any]


def _play(plan: SitePlan, step_s: int = STEP_S) -> tuple[Emulation, list[bytes]]:
    emulation = make_emulation(plan, 100)
    bodies = []
    for until in [*range(plan.start + step_s, plan.end, step_s), plan.end]:
        for station in emulation.stations:
            for columns in station.reader.advance(until):
                bodies += [batch.body for batch in station.pack(columns)]
    return emulation, bodies


@pytest.fixture(scope="module")
def played() -> tuple[Emulation, list[bytes]]:
    return _play(PLAN)


@pytest.fixture(scope="module")
def batches(played: tuple[Emulation, list[bytes]]) -> dict[str, list[Batch]]:
    """Per node its batches in order, each once."""
    of_node: dict[str, dict[int, Batch]] = {}
    for body in played[1]:
        batch = json.loads(gzip.decompress(body))
        of_node.setdefault(batch["node"], {})[batch["sequence"]] = batch
    return {node: [batch for _, batch in sorted(numbered.items())] for node, numbered in of_node.items()}


def test_readings_of_a_node_rise_in_time_and_each_boot_begins_near_zero(
    played: tuple[Emulation, list[bytes]], batches: dict[str, list[Batch]]
) -> None:
    reboots = 0
    for cluster in played[0].clusters:
        for node in cluster.nodes:
            mine = batches[node.name]
            times = [time for batch in mine for time in batch["time"]]
            assert all(earlier < later for earlier, later in pairwise(times))
            for outage in node.outages:
                assert not any(outage.down <= time - node.skew_s < outage.up for time in times)
            for before, after in pairwise(mine):
                for key in ("cpu_busy_s",):
                    if before["boot_id"] == after["boot_id"]:
                        assert before[key][-1] <= after[key][0]
                if before["boot_id"] != after["boot_id"]:
                    reboots += 1
                    assert after["cpu_busy_s"][0] < 1_000
                    # The boot's own few bytes and at most an interval or two of an idle node.
                    assert all(column[0] < 10**6 for column in after["bytes_in"] + after["bytes_out"])
            assert len({batch["boot_id"] for batch in mine}) == 1 + len(node.outages)
    assert reboots > 5


def test_counters_of_narrow_links_wrap(played: tuple[Emulation, list[bytes]], batches: dict[str, list[Batch]]) -> None:
    falls = 0
    for mine in batches.values():
        for before, after in pairwise(
            (batch["boot_id"], values)
            for batch in mine
            for values in zip(batch["bytes_in"][0], batch["bytes_out"][0], strict=True)
        ):
            if before[0] == after[0]:
                falls += sum(later < earlier for earlier, later in zip(before[1], after[1], strict=True))
    assert falls > 500


def test_late_and_doubled_batches_are_sent(played: tuple[Emulation, list[bytes]]) -> None:
    last: dict[str, int] = {}
    late = doubled = 0
    seen = set()
    for body in played[1]:
        batch = json.loads(gzip.decompress(body))
        doubled += (batch["node"], batch["sequence"]) in seen
        late += batch["sequence"] == last.get(batch["node"], 0) - 1
        seen.add((batch["node"], batch["sequence"]))
        last[batch["node"]] = batch["sequence"]
    assert late >= 5
    assert doubled >= 1
    # No number is left out.
    for node in last:
        numbers = [sequence for name, sequence in seen if name == node]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
