"""A late batch costs the same however much follows, and all later readings are right at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests import make
from tests.server.ingest.conftest import stored

from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Submission
from jobsight_server.profiler.runs import read_windows
from jobsight_server.queries.timeline import timeline
from jobsight_server.storage.readings.sent import BatchInterface
from jobsight_server.storage.upkeep import delete_old

MakeBatch = Callable[..., Any]
PER_BATCH = 100


def store_of(engine: Engine) -> SampleStore:
    return SampleStore(engine, assumed_speed_bps=1e10, quarantine_bytes=10**6)


def apply(store: SampleStore, batch: Any) -> None:
    assert store.apply([Submission(batch, 1, 5000.0)])[0].status == "stored"


class Node:
    """A node with a 32-bit counter; ``true`` is what an unbounded one would show at reading ``i``, every 10 s.

    With ``infiniband``, a port's counter of as many words.
    """

    def __init__(
        self, make_batch: MakeBatch, readings: int, most: int, seed: int = 1, *, infiniband: bool = False
    ) -> None:
        self.port = BatchInterface("mlx4_0/1", "infiniband", 32, 1e9) if infiniband else None
        rng = random.Random(seed)
        self.true = [0]
        for _ in range(readings):
            self.true.append(self.true[-1] + rng.randrange(most))
        self._make = make_batch

    def batch(self, number: int) -> Any:
        part = range(PER_BATCH * number, PER_BATCH * (number + 1))
        return self._make(
            **({"width": 32} if self.port is None else {"interfaces": [self.port]}),
            sequence=number,
            time=[1000.0 + 10 * i for i in part],
            bytes_in=[self.true[i] % (2**32 if self.port is None else 2**34) for i in part],
            cpu_busy_s=[float(i) for i in part],
        )

    def check(self, engine: Engine, numbers: list[int]) -> None:
        """Check that the profiler and the pages read the truth, with batches ``numbers`` stored."""
        indices = [i for n in sorted(numbers) for i in range(PER_BATCH * n, PER_BATCH * (n + 1))]
        with engine.connect() as connection:
            found = read_windows(connection, [(1, 0.0, 1e9)]).around(1, 0.0, 1e9)
            shown = timeline(connection, 1, 0.0, 1000.0 + 10 * len(self.true), 4, points=50)
        for (i, at), (j, to) in pairwise(zip(indices, found.net_in_bytes.tolist(), strict=True)):
            # Across a batch that is not there yet, wraps cannot be seen.
            assert to - at == self.true[j] - self.true[i] if j == i + 1 else to - at >= 0, (i, j)
        assert max(found.gap_s) == min(found.gap_s)
        moved = sum(
            (bps or 0.0) * (to - at) / 8
            for at, to, bps in zip(shown.time, shown.time[1:], shown.in_bps[1:], strict=False)
        )
        assert moved <= self.true[indices[-1]] * 1.001


def rows_of(engine: Engine) -> list[tuple[Any, ...]]:
    ((node_id,),) = make.rows(engine, "SELECT max(id) FROM nodes")
    return [(row[0], row[1], row[3], row[5], row[6]) for row in stored(engine, node_id)]


@pytest.mark.parametrize("shifting", [False, True])
def test_a_late_batch_costs_the_same_however_much_follows(
    sqlite_engine: Engine, make_batch: MakeBatch, shifting: bool
) -> None:
    """Counted in instructions of SQLite's machine, so that a busy computer does not matter."""
    node = Node(make_batch, 60 * PER_BATCH, 10**9 if shifting else 1000)
    store = store_of(sqlite_engine)
    instructions = [0]

    def count() -> None:
        instructions[0] += 100

    def cost(number: int) -> int:
        raw = sqlite_engine.raw_connection()
        raw.driver_connection.set_progress_handler(count, 100)
        raw.close()
        before = instructions[0]
        apply(store, node.batch(number))
        return instructions[0] - before

    late = [1, 3]
    for number in range(30):
        if number not in late:
            apply(store, node.batch(number))
    few = cost(late[1])
    for number in range(30, 60):
        apply(store, node.batch(number))
    many = cost(late[0])
    assert many < 1.5 * few + 2000
    node.check(sqlite_engine, list(range(60)))


def test_whatever_comes_late_readers_see_the_truth_at_once(engine: Engine, make_batch: MakeBatch) -> None:
    """Wraps that late batches reveal; each batch is stored by a new process."""
    node = Node(make_batch, 40 * PER_BATCH, 10**8)
    order = [n for n in range(30) if n not in (2, 17, 18)] + [18, 31, 2, 32, 17, 30]
    for number in order[:-5]:
        apply(store_of(engine), node.batch(number))
    for count in range(len(order) - 5, len(order)):
        apply(store_of(engine), node.batch(order[count]))
        node.check(engine, order[: count + 1])
    raw = rows_of(engine)
    expected = [node.true[i] for n in sorted(order) for i in range(PER_BATCH * n, PER_BATCH * (n + 1))]
    assert [row[1] - raw[0][1] for row in raw] == [value - expected[0] for value in expected]


@pytest.mark.parametrize("seed", range(3))
def test_any_order_gives_the_same_rows(engine: Engine, make_batch: MakeBatch, seed: int) -> None:
    """With boots between, steps at random moments and a process that ends at random moments."""
    rng = random.Random(seed)
    node = Node(make_batch, 12 * PER_BATCH, 10**9, seed, infiniband=seed == 2)
    boots = ["a"] * 5 + ["b"] * 7
    batches = [node.batch(n).__class__(**{**_fields(node.batch(n)), "boot_id": boots[n]}) for n in range(12)]
    results = []
    for round_ in range(3):
        order = batches[:]
        if round_:
            rng.shuffle(order)
        store = store_of(engine)
        for batch in order:
            apply(store, batch)
            if rng.random() < 0.3:
                store = store_of(engine)
        raw = rows_of(engine)
        results.append([(time, net - raw[0][1], cpu - raw[0][2], gap - raw[0][3]) for time, net, cpu, gap, _ in raw])
        assert all(ib == (net if node.port else None) for _, net, _, _, ib in raw)
        steps = [after[1] - before[1] for before, after in pairwise(raw)]
        true = [after - before for before, after in pairwise(node.true[: 12 * PER_BATCH])]
        true[5 * PER_BATCH - 1] = 0  # between the boots
        assert steps == true
        with engine.begin() as connection:
            for table in ("readings", "boots", "nodes", "marks"):
                connection.execute(text(f"DELETE FROM {table}"))
    assert results[0] == results[1] == results[2]


def _fields(batch: Any) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in batch.__struct_fields__}


@pytest.mark.parametrize("seed", range(4))
def test_batches_that_overlap_leave_no_reading_out_and_no_traffic_twice(
    engine: Engine, make_batch: MakeBatch, seed: int
) -> None:
    """All batches read one counter: each of two readings shares times with others, or lies between them."""
    rng = random.Random(seed)
    store, times, sent = store_of(engine), set(), 0
    for number in range(60):
        begin = 1000.0 + 10 * rng.randrange(80)
        time = [begin, begin + rng.choice((5.0, 10.0, 30.0, 200.0))]
        busy = [at - 1000.0 for at in time]
        made = make_batch(sequence=number, time=time, bytes_in=[int(at) for at in time], cpu_busy_s=busy)
        apply(store, made)
        times.update(time)
        sent += len(time)
        if rng.random() < 0.3:
            store = store_of(engine)
    found = rows_of(engine)
    assert [row[0] for row in found] == sorted(times)
    assert make.counts(engine)["samples_overlapping", ""] == sent - len(times)
    assert [row[1] - found[0][1] for row in found] == [int(at - found[0][0]) for at in sorted(times)]
    assert {row[3] for row in found} == {found[0][3]}
    last = max(times) + 10.0
    apply(store, make_batch(sequence=99, time=[last], bytes_in=[int(last)], cpu_busy_s=[last - 1000.0]))
    assert rows_of(engine)[-1][1] - found[-1][1] == 10


def test_a_batch_of_many_hours_is_stored_in_parts(engine: Engine, make_batch: MakeBatch) -> None:
    time = [1000.0 + 7200.0 * i for i in range(30)]
    made = make_batch(time=time, bytes_in=[1000 * i for i in range(30)], cpu_busy_s=[float(i) for i in range(30)])
    store = store_of(engine)
    apply(store, made)
    assert [row[:2] for row in rows_of(engine)] == [(at, 1000 * i) for i, at in enumerate(time)]
    assert store.apply([Submission(made, 1, 5000.0)])[0].status == "duplicate"
    life = (time[17] + 1.0, time[17] + 2.0)
    with engine.connect() as connection:
        found = read_windows(connection, [(1, *life)]).around(1, *life)
        assert connection.execute(text("SELECT max(last_time - first_time) FROM readings")).scalar_one() <= 21600.0
    assert found.time.tolist() == time[13:23]


def test_retention_and_late_batches(engine: Engine, make_batch: MakeBatch) -> None:
    node = Node(make_batch, 80 * PER_BATCH, 10**9)
    for number in [n for n in range(80) if n != 5]:
        apply(store_of(engine), node.batch(number))
    apply(store_of(engine), node.batch(5))
    delete_old(engine, 1000.0 + 10 * PER_BATCH * 60)
    node.check(engine, list(range(60, 80)))
