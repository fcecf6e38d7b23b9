"""Symbolic links among accounting files: the server follows none that leads out of the directory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests import make

from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.ground.seldom import Seldom
from jobsight_server.queries.rejected import EventCount, rejections
from jobsight_server.settings.declared import AccountingSource

NOT_FOLLOWED = "a symbolic link out of the directory: not followed"


@pytest.mark.storage
def test_a_link_out_of_the_directory_is_skipped_counted_and_logged_once(
    engine: Engine, directory: Path, tmp_path: Path, log: Any, noon: int, caplog: pytest.LogCaptureFixture
) -> None:
    log.end("1.s", noon, noon + 60)
    (directory / "20231113").write_bytes(log.data)
    secret = tmp_path / "secret"
    log.end("666.s", noon, noon + 60, user="mallory")
    secret.write_bytes(log.data)
    beside = tmp_path / "accounting-other"  # begins with the name of the directory, and is another
    beside.mkdir()
    (beside / "20231115").write_bytes(log.data)
    (directory / "20231114").symlink_to(secret)
    (directory / "20231115").symlink_to(Path("..") / "accounting-other" / "20231115")
    (directory / "20231116").symlink_to("20231116")
    seen: set[Path] = set()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            report = follow_once(engine, AccountingSource("c", directory), lambda: 1.8e9, skipped=seen)
            assert report.unreadable[str(directory / "20231116")] == "file: symbolic links form a loop"
    with engine.connect() as connection:
        assert connection.execute(text("SELECT job_id FROM jobs")).all() == [("1.s",)]
        counts = read_event_counts(connection)
    assert counts["accounting_unreadable", NOT_FOLLOWED] == 2
    assert EventCount("accounting_unreadable", NOT_FOLLOWED, 2) in rejections(counts)
    assert sum(NOT_FOLLOWED in message and "20231114" in message for message in caplog.messages) == 1


def test_other_names_in_a_directory_are_counted_and_logged_once(
    sqlite_engine: Engine, directory: Path, log: Any, noon: int, caplog: pytest.LogCaptureFixture
) -> None:
    log.end("1.s", noon, noon + 60)
    for name in ("20231113", "accounting.txt", "sacct.json", ".20231114.swp"):
        (directory / name).write_bytes(log.data)
    (directory / "older").mkdir()
    skipped: set[Path] = set()
    with caplog.at_level(logging.WARNING):
        reports = [
            follow_once(sqlite_engine, AccountingSource("c", directory), lambda: 1.8e9, skipped=skipped)
            for _ in range(3)
        ]
    reason = "a name that is not followed: files of a directory are named YYYYMMDD or YYYYMMDD.gz"
    assert reports[0].unreadable == {str(directory / name): reason for name in ("accounting.txt", "sacct.json")}
    assert (reports[0].lines, reports[1].unreadable) == (1, {})
    assert EventCount("accounting_unreadable", reason, 2) in rejections(make.counts(sqlite_engine))
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        f"{directory / name}: {reason}" for name in ("accounting.txt", "sacct.json")
    ]


def test_a_missing_directory_is_a_line_a_minute_and_one_for_each_change(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, seldom = tmp_path / "away", Seldom(60.0, 100)
    for now in (0.0, 5.0, 55.0, 60.0, 65.0):
        follow_once(engine, AccountingSource("c", directory), lambda now=now: now, seldom=seldom)  # type: ignore[misc]
    assert [message.endswith("No such file or directory") for message in caplog.messages] == [True, True]
    directory.write_text("a file")
    follow_once(engine, AccountingSource("c", directory), lambda: 70.0, seldom=seldom)
    assert [message.endswith("Not a directory") for message in caplog.messages] == [False, False, True]


def test_links_within_the_directory_and_to_the_directory_are_followed(
    engine: Engine, directory: Path, tmp_path: Path, log: Any, noon: int
) -> None:
    log.end("1.s", noon, noon + 60)
    (directory / "server.log").write_bytes(log.data)
    (directory / "20231114").symlink_to("server.log")
    link = tmp_path / "link"
    link.symlink_to(directory)
    report = follow_once(engine, AccountingSource("c", link), lambda: 1.8e9)
    assert (report.lines, report.unreadable) == (1, {})
