"""A late batch costs the same however much follows it; what it changes is worked in by steps that nobody can see."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, text

from jobsight_server.ingest.shifts import STEP_ROWS, Shift, added, amounts_at
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import BatchInterface, Submission
from jobsight_server.profiler.runs import read_windows
from jobsight_server.queries.timeline import timeline
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.storage.sample_columns import Totals
from jobsight_server.storage.upkeep import delete_old

MakeBatch = Callable[..., Any]
PER_BATCH = 100


def store_of(engine: Engine) -> SampleStore:
    return SampleStore(engine, assumed_speed_bps=1e10, quarantine_bytes=10**6)


def apply(store: SampleStore, batch: Any) -> None:
    assert store.apply([Submission(batch, 1, 5000.0)])[0].status == "stored"


def settle(store: SampleStore) -> int:
    """All steps; returns how many there were."""
    steps = 0
    while store.settle():
        steps += 1
    return steps


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

    def check(self, engine: Engine, stored: list[int]) -> None:
        """What the profiler and the pages read is the truth; ``stored`` batches are there."""
        indices = [i for n in sorted(stored) for i in range(PER_BATCH * n, PER_BATCH * (n + 1))]
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
    with engine.connect() as connection:
        query = "SELECT time, net_in_bytes, cpu_busy_s, gap_s, ib_in_bytes FROM samples ORDER BY time"
        return [tuple(row) for row in connection.execute(text(query))]


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
    settle(store)
    for number in range(30, 60):
        apply(store, node.batch(number))
    many = cost(late[0])
    assert many < 1.5 * few
    if shifting:
        assert settle(store) > 0
    node.check(sqlite_engine, list(range(60)))


def test_no_reader_sees_a_step_and_no_crash_loses_one(engine: Engine, make_batch: MakeBatch) -> None:
    """Six steps of readings are off by wraps that two late batches reveal; a new process makes each step."""
    count = 6 * STEP_ROWS // PER_BATCH
    node = Node(make_batch, (count + 40) * PER_BATCH, 10**8)
    stored = [n for n in range(count) if n not in (2, 30)]
    for number in stored:
        apply(store_of(engine), node.batch(number))
    late = 0
    steps = 0
    while True:
        if steps in (0, 2):
            # The second one arrives while the first one is worked in.
            number = (30, 2)[late]
            late += 1
            apply(store_of(engine), node.batch(number))
            stored.append(number)
        else:
            # Other batches are stored between the steps; they make one themselves.
            stored.append(max(stored) + 1)
            apply(store_of(engine), node.batch(stored[-1]))
        steps += 1
        node.check(engine, stored)
        if late == 2 and not store_of(engine).settle():
            break
        node.check(engine, stored)
    assert steps > 2
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM shifts")).scalar() == 0
        assert read_event_counts(connection)["batches_late_shifting", ""] == 2
    raw = rows_of(engine)
    in_order = sorted(stored)
    expected = [node.true[i] for n in in_order for i in range(PER_BATCH * n, PER_BATCH * (n + 1))]
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
            if rng.random() < 0.3:
                store.settle()
        settle(store)
        raw = rows_of(engine)
        results.append([(time, net - raw[0][1], cpu - raw[0][2], gap - raw[0][3]) for time, net, cpu, gap, _ in raw])
        assert all(ib == (net if node.port else None) for _, net, _, _, ib in raw)
        steps = [after[1] - before[1] for before, after in pairwise(raw)]
        true = [after - before for before, after in pairwise(node.true[: 12 * PER_BATCH])]
        true[5 * PER_BATCH - 1] = 0  # between the boots
        assert steps == true
        with engine.begin() as connection:
            for table in ("samples", "batches", "nodes", "marks"):
                connection.execute(text(f"DELETE FROM {table}"))
    assert results[0] == results[1] == results[2]


def _fields(batch: Any) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in batch.__struct_fields__}


def test_a_shift_on_top_of_others() -> None:
    """Oracle: an array of amounts, second by second."""
    rng = random.Random(7)
    for _ in range(200):
        shifts: list[Shift] = []
        plain = [0] * 40
        for _ in range(rng.randrange(1, 8)):
            since, amount = rng.randrange(30), rng.randrange(1, 2**62)
            shifts = added(shifts, float(since), Totals(amount))
            plain = [value + amount if t >= since else value for t, value in enumerate(plain)]
            if shifts and rng.random() < 0.5:  # a step: the first is worked in up to some moment
                first = shifts[0]
                until = rng.randrange(int(first.since), 40)
                plain = [v - first.amounts.net_in if first.since <= t < min(until, first.until) else v
                         for t, v in enumerate(plain)]  # fmt: skip
                moved = Shift(float(until), first.until, first.amounts)
                shifts = [*([moved] if until < first.until else []), *shifts[1:]]
        assert [amounts_at(shifts, float(t)).net_in for t in range(40)] == [value % 2**62 for value in plain]
        assert all(a.until <= b.since for a, b in pairwise(shifts))


def test_retention_and_shifts(engine: Engine, make_batch: MakeBatch) -> None:
    node = Node(make_batch, 80 * PER_BATCH, 10**9)
    for number in [n for n in range(80) if n != 5]:
        apply(store_of(engine), node.batch(number))
    apply(store_of(engine), node.batch(5))
    delete_old(engine, 1000.0 + 10 * PER_BATCH * 60)
    node.check(engine, list(range(60, 80)))
    settle(store_of(engine))
    node.check(engine, list(range(60, 80)))
