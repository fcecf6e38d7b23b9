"""The store: each batch once, late ones in their place, totals that add up; on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from tests import make
from tests.server.ingest.conftest import stored

from jobsight_server.ingest.store import Refusal, SampleStore
from jobsight_server.ingest.wire import Batch, Submission
from jobsight_server.profiler.exactness import UNCOUNTED
from jobsight_server.profiler.usage import uncounted
from jobsight_server.storage.job_columns import load_columns
from jobsight_server.storage.readings.gpu_columns import load_gpus

MakeBatch = Callable[..., Batch]
GOLDEN_JOBS = Path(__file__).parents[2] / "golden" / "batch-jobs.json"


@pytest.fixture
def store(engine: Engine) -> SampleStore:
    return SampleStore(engine, assumed_speed_bps=1e10, quarantine_bytes=3 * 1030)


def submission(batch: Batch, checksum: int = 1) -> Submission:
    return Submission(batch, checksum, received_at=5000.0)


def balance(engine: Engine) -> dict[str, int]:
    """Counts of batches; asserts that every batch has an outcome."""
    counts = make.counts(engine)
    sums: dict[str, int] = {}
    for (name, _), value in counts.items():
        sums[name] = sums.get(name, 0) + value
    parts = ("stored", "duplicate", "quarantined", "rejected")
    assert sums.get("batches_received", 0) == sum(sums.get(f"batches_{part}", 0) for part in parts)
    assert sums.get("batches_quarantined", 0) == sums.get("quarantined_because", 0)
    return sums


@pytest.mark.storage
def test_a_batch_counts_once(store: SampleStore, engine: Engine, make_batch: MakeBatch) -> None:
    batch = make_batch(bytes_in=[7, 107, 307], marks=[(1, "4711", "start")])
    first = store.apply([submission(batch)])
    again = store.apply([submission(batch), submission(batch)])
    other = store.apply([submission(batch, checksum=2)])
    assert [outcome.status for outcome in first + again + other] == ["stored", "duplicate", "duplicate", "conflict"]
    assert first[0].samples == 3
    found = [(row[0], row[1], row[4], row[5]) for row in stored(engine)]
    assert found == [(1000.0, 0, 1 << 30, 0.0), (1010.0, 100, 1 << 30, 0.0), (1020.0, 300, 1 << 30, 0.0)]
    assert make.rows(engine, "SELECT job_id, event, time FROM marks") == [("4711", "start", 1010.0)]
    store.apply([Refusal("other content", "conflict", 1.0, b"abc", "alpha", "n001")])
    assert balance(engine)["batches_received"] == 4


@pytest.mark.storage
def test_a_transaction_that_fails_leaves_nothing_behind(
    store: SampleStore, engine: Engine, make_batch: MakeBatch
) -> None:
    store.apply([submission(make_batch())])
    before = make.rows(engine, "SELECT * FROM readings"), make.rows(engine, "SELECT * FROM nodes")
    too_big = make_batch(sequence=3, time=[1100.0], bytes_in=[500], cpu_busy_s=[4.0], cpus=2**70)
    with pytest.raises((SQLAlchemyError, OverflowError)):
        store.apply(
            [submission(make_batch(sequence=2, time=[1030.0], bytes_in=[300], cpu_busy_s=[3.0])), submission(too_big)]
        )
    assert (make.rows(engine, "SELECT * FROM readings"), make.rows(engine, "SELECT * FROM nodes")) == before
    store.apply([submission(make_batch(sequence=2, time=[1030.0], bytes_in=[300], cpu_busy_s=[3.0]))])
    assert stored(engine)[-1][1] == 300
    assert balance(engine)["batches_stored"] == 2


@pytest.mark.storage
def test_quarantine_is_bounded_and_everything_is_counted(store: SampleStore, engine: Engine) -> None:
    refusals = [Refusal(f"reason {i}", "wrong content", 1.0, b"abc") for i in range(5)]
    store.apply(refusals, {"too large": 1})
    assert [row[0] for row in make.rows(engine, "SELECT reason FROM quarantine ORDER BY id")] == [
        "reason 2", "reason 3", "reason 4",
    ]  # fmt: skip
    sums = balance(engine)
    assert (sums["batches_received"], sums["batches_quarantined"], sums["batches_rejected"]) == (6, 5, 1)


@pytest.mark.storage
def test_jobs_of_a_batch_are_stored_once_and_under_one_form_of_their_id(writer: Any) -> None:
    body = GOLDEN_JOBS.read_text().replace('"4711.server"', '"4711.server.example.org"').encode()
    assert writer.post(body) == (200, {"status": "stored", "samples": 4})
    assert writer.post(body) == (200, {"status": "duplicate"})
    query = "SELECT job_id, first_time, last_time, samples, peak_bytes, readings FROM job_samples ORDER BY job_id"
    first, second = writer.rows(query)
    assert first[:5] == ("4711.server", 1700000010.0, 1700000020.0, 3, 1_300_000_000)
    columns = load_columns(first[5])
    assert columns.time == [1700000010.0, 1700000017.25, 1700000020.0]
    assert (columns.cpu_s, columns.used) == ([40.0, 44.25, 51.5], [320_000_000, 330_000_000, None])
    assert columns.cache == [500_000_000, 900_000_000, None]
    assert second[:5] == ("4712[3].server", 1700000020.0, 1700000020.0, 1, None)
    assert writer.rows("SELECT job_id FROM marks") == [("4711.server",)]
    # The same job's readings once more, in a batch of its own: what is stored stays.
    again = json.dumps({**json.loads(body), "sequence": 5}).encode()
    assert writer.post(again)[0] == 200
    ((first_time, last_time, packed),) = writer.rows("SELECT first_time, last_time, readings FROM gpu_samples")
    time, (gpu,) = load_gpus(packed)
    assert (first_time, last_time, time) == (1700000000.0, 1700000020.0, json.loads(body)["time"])
    assert (gpu.gpu, gpu.total_bytes, gpu.busy_percent) == ("card1", 68_702_699_520, [0, 95, None, 100])
    assert gpu.used_bytes == [10_854_400, 40_000_000_000, 40_000_000_000, None]
    assert writer.counts()["job_samples_stored", ""] == 2
    assert writer.counts()["job_samples_overlapping", ""] == 2


def test_ports_that_count_no_bytes_stand_with_the_nodes_interfaces(
    store: SampleStore, engine: Engine, make_batch: MakeBatch
) -> None:
    store.apply([submission(make_batch(uncounted=["qedr0/1", "qedr1/1"]))])
    ((stored,),) = make.rows(engine, "SELECT interfaces FROM nodes")
    found = [(port["name"], port.get("uncounted", False)) for port in json.loads(stored)]
    assert found == [("eth0", False), ("qedr0/1", True), ("qedr1/1", True)]
    assert uncounted(stored) == {"bandwidth": UNCOUNTED}
    store.apply([submission(make_batch(sequence=2, time=[1030.0], bytes_in=[300], cpu_busy_s=[3.0]))])
    ((stored,),) = make.rows(engine, "SELECT interfaces FROM nodes")
    assert uncounted(stored) == {}
