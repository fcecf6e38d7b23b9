"""Old batches share rows without effect on late batches, duplicates and wraps."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests import make
from tests.make import not_none
from tests.server.ingest.conftest import stored

from jobsight_server.ingest import joining as module
from jobsight_server.ingest.joining import AFTER_S, WINDOW_S
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import BatchJob, Submission
from jobsight_server.profiler.runs import Boundaries
from jobsight_server.profiler.sampled import job_cgroup, read_job_rows
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.readings.sent import BatchInterface
from jobsight_server.storage.schema import readings
from jobsight_server.storage.upkeep import delete_old
from jobsight_server.upgrade.migrate import upgrade

MakeBatch = Callable[..., Any]
READINGS, INTERVAL_S, BEGIN = 3, 10.0, 1_000_000.0
BATCH_S = READINGS * INTERVAL_S


class Writer:
    """A store with a manual clock, which merges only on request."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.now = engine, BEGIN
        self._store = SampleStore(engine, 1e10, 10**6, clock=lambda: self.now)

    def take(self, batch: Any, checksum: int = 7) -> str:
        return self._store.apply([Submission(batch, checksum, self.now)])[0].status

    def merge(self) -> None:
        self.now += 3600.0
        while self._store.joiner.step():
            pass

    def rows(self) -> list[Any]:
        return list(make.rows(self.engine, select(readings).order_by(readings.c.first_time)))

    def samples(self) -> list[tuple[Any, ...]]:
        return stored(self.engine)

    def counts(self) -> dict[tuple[str, str], int]:
        return make.counts(self.engine)


def numbered(make_batch: MakeBatch, number: int, boot: int = 1, **changes: Any) -> Any:
    """Batch ``number`` of a node with a 32-bit counter, of which an unbounded one grows by 10**9 a reading."""
    readings = range(READINGS * number, READINGS * (number + 1))
    values = {
        "boot_id": f"boot-{boot}",
        "sequence": number,
        "width": 32,
        "time": [BEGIN + INTERVAL_S * i for i in readings],
        "bytes_in": [(10**9 * i) % 2**32 for i in readings],
        "cpu_busy_s": [float(i) for i in readings],
    }
    return make_batch(**{**values, **changes})


def test_a_day_of_batches_becomes_a_few_rows_a_day_later(engine: Engine, make_batch: MakeBatch) -> None:
    writer = Writer(engine)
    day = int(86400 / BATCH_S)
    for number in range(day):
        if number != 1000:
            writer.take(numbered(make_batch, number))
    before = writer.samples()
    writer.merge()
    assert len(writer.rows()) == day - 1
    writer.now += 2 * AFTER_S
    writer.merge()
    assert [(row.sequence, row.last_sequence) for row in writer.rows()] == [
        (0, 719), (720, 999), (1001, 1720), (1721, 2440), (2441, 2879),
    ]  # fmt: skip
    assert writer.samples() == before
    assert sum(len(row.packed) for row in writer.rows()) < 10 * len(before)
    # The one that was missing: what it shows of wraps moves everything after it, and then it is merged as well.
    assert writer.take(numbered(make_batch, 1000)) == "stored"
    assert [writer.take(numbered(make_batch, number)) for number in (0, 500, 1000, 2879)] == ["duplicate"] * 4
    found = [row[:2] for row in writer.samples()]
    assert {(at - before) / (time - earlier) for (earlier, before), (time, at) in pairwise(found)} == {1e8}
    for _ in range(3):
        writer.now += AFTER_S
        writer.merge()
    assert (720, 1000) in [(row.sequence, row.last_sequence) for row in writer.rows()]
    assert delete_old(engine, BEGIN + 86400.0) == READINGS * day


def test_a_number_that_is_used_twice_is_refused_while_its_batch_has_a_row(
    sqlite_engine: Engine, make_batch: MakeBatch
) -> None:
    writer = Writer(sqlite_engine)
    for number in range(10):
        writer.take(numbered(make_batch, number))
    assert writer.take(numbered(make_batch, 5), checksum=8) == "conflict"
    writer.now += AFTER_S
    writer.merge()
    assert [(row.sequence, row.last_sequence) for row in writer.rows()] == [(0, 9)]
    assert writer.take(numbered(make_batch, 5), checksum=8) == "duplicate"
    assert writer.take(numbered(make_batch, 10)) == "stored"


def test_silence_owners_and_other_interfaces_stay_visible(sqlite_engine: Engine, make_batch: MakeBatch) -> None:
    writer = Writer(sqlite_engine)
    for number in (0, 1):
        writer.take(numbered(make_batch, number))
    later = [BEGIN + 5000.0 + INTERVAL_S * i for i in range(READINGS)]
    writer.take(numbered(make_batch, 2, time=later))
    other = [BatchInterface("eth7", "ethernet", 32, 1e9)]
    writer.take(numbered(make_batch, 3, time=[time + 100.0 for time in later], interfaces=other))
    writer.now += AFTER_S
    writer.merge()
    assert [(row.sequence, row.last_sequence) for row in writer.rows()] == [(0, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("seed", range(4))
def test_merging_at_any_moment_changes_no_reading(
    engine: Engine, make_batch: MakeBatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Batches of three boots, some late, in any order, some twice; with merging in between, and without."""
    monkeypatch.setattr(module, "CHUNK_S", 1800.0)
    monkeypatch.setattr(module, "_MOST_READINGS", 100)
    monkeypatch.setattr(module, "_AT_ONCE", 30)
    rng = random.Random(seed)
    plain = open_engine(f"sqlite:///{tmp_path / 'plain.db'}")
    upgrade(plain)
    merging, keeping = Writer(engine), Writer(plain)
    order = [(number, 1 + number // 100) for number in range(300)]
    for _ in range(40):  # one goes some way back
        order.insert(
            min(len(order), rng.randrange(len(order)) + rng.randrange(80)), order.pop(rng.randrange(len(order)))
        )
    order += rng.sample(order, 30)
    for number, boot in order:
        found = [writer.take(numbered(make_batch, number, boot)) for writer in (merging, keeping)]
        assert found[0] == found[1]
        chance = rng.random()
        for writer in (merging, keeping):
            writer.now += AFTER_S / 50
        if chance < 0.3:
            merging.merge()
            keeping.now += 3600.0
        elif chance < 0.5:
            assert merging.samples() == keeping.samples()
    merging.now += AFTER_S
    merging.merge()
    assert merging.samples() == keeping.samples()
    assert merging.counts() == keeping.counts()
    assert len(merging.rows()) < 0.2 * len(keeping.rows())
    plain.dispose()


@pytest.mark.storage
def test_a_jobs_readings_share_rows_and_its_runs_stay_apart(engine: Engine, make_batch: MakeBatch) -> None:
    """Two jobs, one of which runs again on the node; one batch comes late."""
    writer = Writer(engine)
    rng = random.Random(2)
    made = {}
    for number in range(200):
        again = number >= 120  # another cgroup, which counts from zero
        cpu_s = [10.0 * (number % 120) + i for i in range(READINGS)]
        memory = [rng.randrange(10**9, 2 * 10**9) for _ in range(READINGS)]
        peak = 2 * 10**9 + number if not again else 10**9 + number
        job = BatchJob("7", list(range(READINGS)), cpu_s, memory, [0] * READINGS, memory, memory, peak)
        other = BatchJob("8", [0], [5.0 * number], [10**8], [0], [0], [0], None)
        made[number] = numbered(make_batch, number, jobs=[job, other], format=2)
    for number in made:
        if number != 30:
            writer.take(made[number])
    writer.now += 3600.0
    writer.take(made[30])

    def shown(job_id: str, begin: float, end: float) -> Any:
        with engine.connect() as connection:
            rows = read_job_rows(connection, [(1, job_id)])[1, job_id]
        found = not_none(job_cgroup(rows, Boundaries(begin, end), None))
        return len(rows), [column.tolist() for column in (found.time, found.cpu_s, found.used)], found.charged_peak

    lives = [("7", BEGIN, BEGIN + 120 * BATCH_S - 40.0), ("7", BEGIN + 120 * BATCH_S, BEGIN + 1e6), ("8", BEGIN, 2e9)]
    before = [shown(*life) for life in lives]
    writer.now += AFTER_S + 2 * WINDOW_S
    writer.merge()
    after = [shown(*life) for life in lives]
    assert [found[1:] for found in after] == [found[1:] for found in before]
    assert [found[2] for found in after] == [2 * 10**9 + 119, 10**9 + 199, None]
    assert [found[0] for found in before] == [200, 200, 200]
    assert max(found[0] for found in after) <= 2 + 200 * BATCH_S // WINDOW_S + 1
