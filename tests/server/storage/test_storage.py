"""The database itself: durability, versions, locks, retention."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, text
from sqlalchemy.exc import DatabaseError as RefusedByDatabase
from sqlalchemy.exc import DBAPIError, IntegrityError
from tests import make

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import DatabaseError, fetch, open_engine, write_many
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.schema import gpu_samples, job_samples
from jobsight_server.storage.statistics import refresh_if_grown, refresh_statistics
from jobsight_server.storage.upkeep import delete_old
from jobsight_server.upgrade.migrate import upgrade


def test_every_connection_that_writes_is_durable(sqlite_engine: Engine) -> None:
    """A kill of the process cannot show a missing fsync, so the setting itself is asserted, on several connections."""
    connections = [sqlite_engine.connect() for _ in range(3)]
    for connection in connections:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        connection.close()


def test_a_new_file_that_another_process_fills_is_waited_for(tmp_path: Path) -> None:
    """It has no write-ahead log yet, as when a server is started and a token is created at once."""
    file = tmp_path / "new.db"
    engine = open_engine(f"sqlite:///{file}")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        opened = pool.submit(make.rows, engine, "PRAGMA journal_mode")
        assert not wait([opened], timeout=1).done
        other.execute("COMMIT")
        assert opened.result() == [("wal",)]
    engine.dispose()


@pytest.mark.storage
def test_postgresql_commits_are_durable(engine: Engine) -> None:
    if engine.dialect.name == "postgresql":
        assert make.rows(engine, "SHOW synchronous_commit") == [("on",)]


def test_a_reading_engine_refuses_to_write(engine: Engine, database_url: str) -> None:
    reader = open_engine(database_url, "read")
    with pytest.raises(RefusedByDatabase), reader.begin() as connection:
        add_event_counts(connection, {("x", ""): 1})
    reader.dispose()
    with engine.begin() as connection:
        add_event_counts(connection, {("x", ""): 1})


@pytest.mark.storage
def test_the_drivers_errors_are_sqlalchemys(engine: Engine) -> None:
    add = "INSERT INTO event_counts (name, label, value) VALUES (?, ?, ?)"
    with pytest.raises(IntegrityError), engine.begin() as connection:
        write_many(connection, add, [("a", "", None)])
    if engine.dialect.name == "postgresql":
        with engine.connect() as other, engine.connect() as connection:
            fetch(other, "SELECT pg_terminate_backend(?, 5000)", fetch(connection, "SELECT pg_backend_pid()", ())[0])
            with pytest.raises(DBAPIError) as ended:
                write_many(connection, add, [("a", "", 1)])
            assert ended.value.connection_invalidated
            connection.rollback()
            assert fetch(connection, "SELECT 1", ()) == [(1,)]


def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'new.db'}")
    upgrade(engine)
    engine.dispose()
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("url", ["sqlite:nonsense", "", "sqlite://", "sqlite:///:memory:", "mysql://localhost/x"])
def test_a_database_that_cannot_be_used_is_named(url: str) -> None:
    with pytest.raises(DatabaseError, match="database '"):
        open_engine(url)


@pytest.mark.storage
def test_old_samples_go_and_the_rest_stays(engine: Engine) -> None:
    with engine.begin() as connection:
        for node in (1, 2):
            for time in range(0, 100_000, 1000):
                make.readings(connection, node, [(float(time), None, None, None, None, 0.0)], sequence=time)
            for last in (40_000, 90_000):
                row = {"node_id": node, "first_time": last, "last_time": last, "readings": b"{}"}
                connection.execute(insert(job_samples).values(row | {"job_id": "1", "samples": 1}))
                connection.execute(insert(gpu_samples).values(row))
    stop = threading.Event()
    assert delete_old(engine, 50_000.0, stop) == 100
    refresh_statistics(engine)
    assert make.rows(engine, "SELECT count(*), min(first_time) FROM readings") == [(100, 50_000.0)]
    assert make.rows(engine, "SELECT count(*) FROM job_samples") == [(2,)]
    assert make.rows(engine, "SELECT count(*) FROM gpu_samples") == [(2,)]
    assert make.counts(engine) == {("samples_expired", ""): 100}
    stop.set()
    assert delete_old(engine, 80_000.0, stop) == 0


def test_upkeep_does_not_wait_for_readers(migrated_file: Path, tmp_path: Path) -> None:
    """It would hold up ingest meanwhile; a backup reads for minutes, Litestream for ever."""
    file = tmp_path / "jobsight.db"
    file.write_bytes(migrated_file.read_bytes())
    engine, log = open_engine(f"sqlite:///{file}"), tmp_path / "jobsight.db-wal"
    make.execute(engine, "INSERT INTO event_counts VALUES ('x', '', 1)")
    with engine.connect().execution_options(reading=True) as reader:
        assert reader.execute(text("SELECT count(*) FROM event_counts")).scalar() == 1
        make.execute(engine, "INSERT INTO event_counts VALUES ('y', '', 1)")
        upkeep = threading.Thread(target=refresh_statistics, args=(engine,))
        upkeep.start()
        upkeep.join(20)  # the driver would wait for 30 s
        assert not upkeep.is_alive()
        assert log.stat().st_size > 0
    refresh_statistics(engine)
    assert log.stat().st_size == 0
    engine.dispose()


def test_statistics_come_with_the_jobs_and_reach_open_connections(sqlite_engine: Engine) -> None:
    """A connection that was open before plans by them; PRAGMA optimize on a new connection would write none."""
    insert = (
        "WITH RECURSIVE n(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM n WHERE x < {}) INSERT INTO jobs (cluster, "
        "job_id, start, state, user, recorded_at, profiled) SELECT 'alpha', x, x, 'ended', 'u', x, 1 FROM n"
    )
    # Without statistics the first of these indexes is taken: both are equalities.
    query = "EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE state = 'ended' AND job_id = '5' AND {0} = {0}"
    plans, statistics = [], []
    reader = sqlite_engine.connect().execution_options(reading=True)
    for number, (first, last) in enumerate(((1, 500), (501, 1500), (1501, 1900), (1901, 9000))):
        with sqlite_engine.begin() as connection:
            connection.exec_driver_sql(insert.format(first, last))
            count_all(connection)
        refresh_if_grown(sqlite_engine)
        with sqlite_engine.connect() as connection:
            has = connection.scalar(text("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"))
            statistics.append(connection.execute(text("SELECT * FROM sqlite_stat1 ORDER BY 2")).all() if has else [])
        with reader.begin():
            reader.exec_driver_sql("SELECT 1 FROM jobs").close()
            plans.append("ix_jobs_job_id" in str(reader.exec_driver_sql(query.format(number)).all()))
    reader.close()
    assert not statistics[0]
    assert statistics[1] == statistics[2] != statistics[3]
    assert plans[1:] == [True] * 3
