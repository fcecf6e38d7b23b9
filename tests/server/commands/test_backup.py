"""`jobsight backup`: one state of the database, however much is written meanwhile."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.make import Jobsight

from jobsight_server.commands.backup import back_up
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.engine import open_engine


@pytest.fixture
def database(sqlite_engine: Engine) -> Path:
    return Path(str(sqlite_engine.url.database))


def counted(file: Path) -> int:
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return int(connection.execute("SELECT count(*) FROM event_counts").fetchone()[0])
    finally:
        connection.close()


def test_a_copy_is_of_one_moment_and_ends_though_another_process_writes_at_every_step(
    database: Path, tmp_path: Path
) -> None:
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("INSERT INTO event_counts (name, label, value) VALUES ('before', '', 1)")
    steps = []

    def write_between(left: int, pages: int) -> None:
        writer.execute("INSERT INTO event_counts (name, label, value) VALUES ('meanwhile', ?, 1)", (str(left),))
        steps.append(left)
        assert len(steps) <= pages, "it began again"

    there_before, copy = counted(database), tmp_path / "copy.db"
    back_up(open_engine(f"sqlite:///{database}", "read"), copy, write_between, pages_at_once=5)
    assert len(steps) > 10
    assert steps == sorted(steps, reverse=True)
    assert counted(copy) == there_before
    assert counted(database) == there_before + len(steps)
    assert copy.stat().st_mode & 0o777 == 0o600
    writer.close()


def test_a_copy_that_fails_leaves_the_older_one(database: Path, tmp_path: Path) -> None:
    copy, engine = tmp_path / "copy.db", open_engine(f"sqlite:///{database}", "read")
    back_up(engine, copy)
    older = copy.read_bytes()

    def fail(_left: int, _pages: int) -> None:
        raise OSError("no room")

    with pytest.raises(UserError, match="no room"):
        back_up(engine, copy, fail)
    assert copy.read_bytes() == older
    assert {file.name for file in tmp_path.iterdir()} <= {
        "copy.db",
        *(f"jobsight.db{end}" for end in ("", "-wal", "-shm")),
    }


def test_the_command_says_what_it_wrote_and_refuses_the_database_itself(
    database: Path, tmp_path: Path, jobsight: Jobsight
) -> None:
    said = jobsight("backup", str(tmp_path / "copy.db"), on=database).out
    assert f"{(tmp_path / 'copy.db').stat().st_size:,} bytes" in said
    assert "is the database itself" in jobsight("backup", database, on=database, status=1).err


def test_postgresql_has_tools_of_its_own(postgresql_server: Engine, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pg_dump"):
        back_up(postgresql_server, tmp_path / "copy.db")
