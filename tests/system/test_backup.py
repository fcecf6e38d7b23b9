"""A copy made by `jobsight backup` of a server under load, put in its place: nothing is missing up to the copy, and the
scheduler's log and the nodes go on from there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from sqlalchemy import text
from tests import make
from tests.system.killed_site import READINGS, Sender, Work, readings_of

from jobsight_server.storage.engine import open_engine
from site_run import JOBSIGHT, Site, wait_until

BATCHES, JOBS = 40, 100


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_copy_made_under_load_is_restored(tmp_path: Path) -> None:
    settings = ("--follow-interval-s", "0.05", "--profile-grace-s", "0")
    site = make.site(tmp_path / "site", *settings)
    copy, work = tmp_path / "copy.db", Work({"alpha": site}, site.accounting / "alpha")
    try:
        with site.serve():
            work.start()
            work.let_go(BATCHES, JOBS)
            work.wait_for_more(all_allowed=True)
            wait_until(lambda: site.settled(JOBS), 120, lambda: str(site.api("now")["runs"]))
            work.let_go(BATCHES, JOBS)
            command = [*JOBSIGHT, "backup", str(copy), "--database", site.database]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            work.wait_for_more(all_allowed=True)
        restore(copy, tmp_path / "site" / "jobsight.db")
        had = [stored_readings(site, sender) for sender in work.senders]
        assert all(BATCHES * READINGS <= readings <= 2 * BATCHES * READINGS for readings in had)
        with site.serve():
            work.let_go(1, JOBS)
            work.wait_for_more(all_allowed=True)
            wait_until(lambda: site.settled(3 * JOBS), 120, lambda: str(site.api("now")["runs"]))
            now_has = [stored_readings(site, sender) for sender in work.senders]
            assert now_has == [readings + READINGS for readings in had]
            jobs = site.api("now")["runs"]
            assert (jobs["ended"], jobs["profiled"]) == (3 * JOBS, 3 * JOBS)
    finally:
        work.stop.set()
    assert work.scheduler.jobs == 3 * JOBS
    engine = open_engine(site.database, "read")
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
        learned = text("SELECT sum(n) FROM series WHERE metric = 'runtime'")
        assert connection.execute(learned).scalar() == 3 * JOBS
    engine.dispose()


def restore(copy: Path, database: Path) -> None:
    """Restore as in docs/operate/operations.md: the old log must not be applied to the copy."""
    for end in ("-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)
    copy.replace(database)


def stored_readings(site: Site, sender: Sender) -> int:
    """Count the stored readings of this node; asserts that each is stored once, as sent."""
    engine = open_engine(site.database, "read")
    with engine.connect() as connection:
        found = readings_of(connection, sender)
    engine.dispose()
    begin = found.time[0]
    assert found.net_in_bytes.tolist() == [1000 * round(time - begin) for time in found.time]
    return len(found)
