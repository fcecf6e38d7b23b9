"""The content of a batch never blocks later ones, neither at once nor after a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.server.ingest.conftest import stored

from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Submission
from jobsight_server.profiler.runs import read_windows
from jobsight_server.storage.readings.sample_columns import MODULUS
from jobsight_server.storage.readings.sent import BatchInterface

Serve = Callable[..., Any]
START = 1_700_000_000.0


def batch(golden: dict[str, Any], number: int, /, **changes: Any) -> bytes:
    """Batch ``number``: behind the one with the number before."""
    time = [START + 0.001 * (number + step / 4) for step in range(4)]
    return json.dumps({**golden, "sequence": number, "time": time, **changes}).encode()


def test_a_counter_that_jumps_each_time_does_not_stop_its_node(
    engine: Engine, serve_writer: Serve, golden: dict[str, Any]
) -> None:
    """Totals that grow by just under 2**60 with each batch would leave 63 bits with the ninth."""
    jump, card = 2**60 - 1, [golden["interfaces"][0]]
    with serve_writer(engine) as writer:
        for number in range(15):
            column = [[jump * (number % 15)] * 4]
            body = batch(golden, number, interfaces=card, bytes_in=column, bytes_out=column, cpu_busy_s=[9.0] * 4)
            assert writer.post(body)[0] == 200, number
    with serve_writer(engine) as writer:
        column = [[5, 5, 5, 1005]]
        again = batch(golden, 99, boot_id="next", interfaces=card, bytes_in=column, bytes_out=column)
        assert writer.post(again) == (200, {"status": "stored", "samples": 4})
        totals = [row[1] for row in writer.readings()]
        assert totals[-1] - totals[-2] == 1000
        assert writer.counts()["counters_resets", ""] == 14  # each jump is a damaged counter, and counted


def test_totals_beyond_62_bits_begin_again_and_rise_on(engine: Engine, make_batch: Any) -> None:
    """The largest steps that count as traffic, on 64 cards, until the total has wrapped twice."""
    cards = [BatchInterface(f"e{card}", "ethernet", 64, 1e9) for card in range(64)]
    step_s, rate = 20_000, 2**40 - 1
    store = SampleStore(engine, 1e10, 10**6)
    for number in range(8):
        columns = [[number * rate * step_s]] * 64
        made = make_batch(
            time=[1000.0 + step_s * number], sequence=number, interfaces=cards, bytes_in=columns, bytes_out=columns,
            memory_used_bytes=[1], cpu_busy_s=[0.0],
        )  # fmt: skip
        assert store.apply([Submission(made, 1, 5000.0)])[0].status == "stored"
    with engine.connect() as connection:
        totals = [row[1] for row in stored(engine)]
        lives = [(1000.0 + step_s * n, 1000.0 + step_s * (n + 1)) for n in range(3, 7)]
        windows = read_windows(connection, [(1, *life) for life in lives])
        pairs = [windows.around(1, *life) for life in lives]
    assert [(after - before) % MODULUS for before, after in pairwise(totals)] == [64 * rate * step_s] * 7
    assert sum(after < before for before, after in pairwise(totals)) == 2
    assert all(pair.gap_s[-1] == 0 for pair in pairs)


@pytest.mark.storage
@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_busy_s": [0.0, 1.7e308, 1.7e308, 1.7e308]},
        {"cpu_busy_s": [0.0, 9e14, 9e14, 9e14]},
        {"sent_at": 1.7e308},
        {"agent": {"cpu_seconds": 1.7e308}},
        {"interfaces": [{"name": n, "kind": "other", "width_bits": 32, "speed_bps": 1.7e308} for n in "ab"]},
        {"memory_total_bytes": 2**63 - 1, "memory_used_bytes": [2**63 - 1] * 4},
        {"cpus": 2**31 - 1, "sequence": 2**63 - 1},
        {"agent": {"version": "\x00"}},
        {"node": "n001", "marks": [{"index": 0, "job": "\U0010ffff" * 255, "event": "end"}]},
    ],
)
def test_extreme_values_do_not_stop_their_node(
    engine: Engine, serve_writer: Serve, golden: dict[str, Any], changes: dict[str, Any]
) -> None:
    with serve_writer(engine) as writer:
        for number in range(3):
            status, answer = writer.post(batch(golden, number, **changes))
            assert status in {200, 422}, answer
        assert writer.post(batch(golden, 50))[0] == 200
    with serve_writer(engine) as writer:
        assert writer.post(batch(golden, 60)) == (200, {"status": "stored", "samples": 4})
        last = writer.readings()[-1][3]
        assert last == pytest.approx(last)  # neither null nor not a number
        assert 0 <= last < 1e12


@pytest.mark.parametrize("opening", [b'{"a":', b'{"a":['])
def test_deep_nesting_is_refused(engine: Engine, serve_writer: Serve, golden: dict[str, Any], opening: bytes) -> None:
    with serve_writer(engine) as writer:
        for body in (opening * 10_000, batch(golden, 1)[:-1] + b', "more": ' + b"[" * 15_000):
            status, answer = writer.post(body)
            assert status == 422
            assert "nested too deeply" in answer["error"]
        assert writer.post(batch(golden, 2))[0] == 200
        assert writer.balance()["quarantined"] == 2
