"""The limit of the database's size: real files, real deletions, on both systems."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Engine, insert
from tests import make

from jobsight_server.queries.now import JOBS, now_page
from jobsight_server.queries.prometheus import exposition
from jobsight_server.serve.background import run_until
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import total_bytes, used_bytes
from jobsight_server.storage.readings.sent import pack
from jobsight_server.storage.readings.size_cap import DELETED, READINGS, SHORTENED, keep_size
from jobsight_server.storage.schema import readings

DAY_S = 86400.0
NOW = 30 * DAY_S
NODES, STEP_S = 4, 60.0


def vacuum(engine: Engine, statement: str) -> None:
    """Vacuum, as PostgreSQL does by itself after a while."""
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(statement)


@pytest.fixture(autouse=True)
def no_rows_of_other_tests(engine: Engine) -> None:
    """Give back the room of rows that tests before deleted: autovacuum would, at any moment."""
    vacuum(engine, "VACUUM FULL")


def fill(engine: Engine, begin: float, end: float) -> None:
    """Batches of three samples, as agents send by default, a sample every minute."""
    row = {"boot": 1, "checksum": 4_000_000_000, "samples": 3}
    row |= {"sequence": 0, "last_sequence": 0}
    with engine.begin() as connection:
        for node in range(NODES):
            rows = []
            for i in range(0, int((end - begin) / STEP_S), 3):
                time = [begin + STEP_S * (i + k) for k in range(3)]
                whole = [[8 * 10**9] * 3, *[[10_000_000 * k for k in range(3)]] * 2]
                rows.append(
                    row | {"node_id": node, "first_time": time[0], "last_time": time[2], "received_at": time[2] + 5.0}
                    | {"packed": pack((time, time, None, None), whole)}
                )  # fmt: skip
            connection.execute(insert(readings), rows)


def add_job(engine: Engine, name: str, start: float, end: float | None, *, profiled: bool) -> None:
    with engine.begin() as connection:
        make.job(connection, name, start=start, end=end, profiled=profiled)


def oldest_and_newest(engine: Engine) -> tuple[float, float]:
    ((oldest, newest),) = make.rows(engine, "SELECT min(first_time), max(last_time) FROM readings")
    return oldest, newest


def on_disk(engine: Engine) -> int:
    with engine.connect() as connection:
        return total_bytes(connection)


@pytest.mark.exhaustive
@pytest.mark.storage
def test_the_oldest_readings_go_until_the_database_fits(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    empty = used_bytes(engine, READINGS)
    fill(engine, 10 * DAY_S, NOW)
    full = used_bytes(engine, READINGS)
    assert full > empty + 5_000_000
    add_job(engine, "profiled", 11 * DAY_S, 12 * DAY_S, profiled=True)
    add_job(engine, "waiting", 11 * DAY_S, 12 * DAY_S, profiled=False)
    add_job(engine, "running", 12 * DAY_S, None, profiled=False)
    add_job(engine, "late", 29 * DAY_S, None, profiled=False)
    at_most = empty + (full - empty) // 2
    with caplog.at_level(logging.WARNING):
        deleted = keep_size(engine, at_most, NOW)
    left = used_bytes(engine, READINGS)
    assert 0.9 * at_most < left <= at_most
    oldest, newest = oldest_and_newest(engine)
    # Half of twenty days, to three days: PostgreSQL packs rows of the same size into pages more or less well.
    assert 17 * DAY_S < oldest < 23 * DAY_S
    assert newest == NOW - STEP_S
    assert deleted == pytest.approx(NODES * (oldest - 10 * DAY_S) / STEP_S, abs=NODES)
    assert make.counts(engine) == {(DELETED, ""): deleted, (SHORTENED, ""): 2}
    (said,) = caplog.messages
    assert f"ends retention early: {deleted} samples" in said
    assert "2 jobs without a profile lost readings" in said
    assert make.rows(engine, "SELECT count(*) FROM jobs") == [(4,)]


def test_room_that_is_free_is_not_taken_for_data(engine: Engine) -> None:
    """A file does not shrink when rows are deleted: deleting until it does would delete everything."""
    fill(engine, 10 * DAY_S, NOW)
    at_most = used_bytes(engine, READINGS) * 3 // 4
    assert keep_size(engine, at_most, NOW) > 0
    assert on_disk(engine) > at_most
    before = oldest_and_newest(engine)
    assert keep_size(engine, at_most, NOW) == 0
    vacuum(engine, f"VACUUM {', '.join(READINGS)}")
    assert keep_size(engine, at_most, NOW) == 0
    assert oldest_and_newest(engine) == before
    size = on_disk(engine)
    fill(engine, NOW, NOW + 2 * DAY_S)
    assert on_disk(engine) < 1.03 * size, "new rows take the room of those that went"
    assert keep_size(engine, at_most, NOW + 2 * DAY_S) > 0
    assert used_bytes(engine, READINGS) <= 1.01 * at_most  # PostgreSQL estimates, from a sample


@pytest.mark.storage
def test_the_last_day_stays_whatever_the_limit(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    fill(engine, NOW - 3 * DAY_S, NOW)
    with caplog.at_level(logging.WARNING):
        keep_size(engine, 1, NOW)
    assert oldest_and_newest(engine)[0] == NOW - DAY_S
    assert "readings of the last day alone are left: raise database_bytes_at_most" in caplog.messages[0]
    assert keep_size(engine, 1, NOW) == 0


def test_the_server_keeps_it_and_shows_it(engine: Engine, database_url: str) -> None:
    now = time.time()
    fill(engine, now - 5 * DAY_S, now)
    limit = used_bytes(engine, READINGS) * 9 // 10
    settings = Settings(database=database_url, upkeep_interval_s=1.0, database_bytes_at_most=limit)
    stop = threading.Event()
    background = threading.Thread(target=run_until, args=(stop, engine, settings))
    background.start()
    try:
        deadline = time.monotonic() + 90
        while (DELETED, "") not in make.counts(engine):  # PostgreSQL's size is an estimate that may vary
            assert time.monotonic() < deadline, "nothing was deleted"
            time.sleep(0.1)
    finally:
        stop.set()
        background.join()
    deleted: Any = make.counts(engine)[DELETED, ""]
    with engine.connect() as connection:
        assert now_page(connection, now, JOBS.asked())[0].server.samples_deleted_for_space == deleted
        metrics = exposition(connection, now).decode()
    assert f"jobsight_{DELETED}_total {deleted:.1f}" in metrics
