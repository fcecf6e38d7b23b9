"""A copy made by `jobsight backup` of a server under load, put in its place: nothing is missing up to the copy, and the
scheduler's log and the nodes go on from there."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from tests import make

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.samples import read_samples
from site_run import JOBSIGHT, Site, wait_until

from .killed_site import NODES, READINGS, Scheduler, Sender

BATCHES, JOBS = 40, 100


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_copy_made_under_load_is_restored(tmp_path: Path) -> None:
    settings = ("--follow-interval-s", "0.05", "--profile-grace-s", "0")
    site = make.site(tmp_path / "site", *settings)
    stop, copy = threading.Event(), tmp_path / "copy.db"
    token, address = site.agent_token_file.read_text(), site.ingest_url.removeprefix("http://")
    senders = [Sender(address, token, node, stop) for node in range(NODES)]
    scheduler = Scheduler(site.accounting / "alpha", stop)

    def let_more_come(batches: int, jobs: int) -> None:
        scheduler.allowed += jobs
        for sender in senders:
            sender.allowed += batches

    def wait_for_senders() -> None:
        wait_until(
            lambda: all(sender.acknowledged == sender.allowed for sender in senders),
            120,
            lambda: f"acknowledged: {[sender.acknowledged for sender in senders]}",
        )

    try:
        with site.serve():
            for thread in (*senders, scheduler):
                thread.start()
            let_more_come(BATCHES, JOBS)
            wait_for_senders()
            wait_until(lambda: site.settled(JOBS), 120, lambda: str(site.api("overview")["jobs"]))
            let_more_come(BATCHES, JOBS)
            command = [*JOBSIGHT, "backup", str(copy), "--database", site.database]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            wait_for_senders()
        restore(copy, tmp_path / "site" / "jobsight.db")
        had = [stored_readings(site, sender) for sender in senders]
        assert all(BATCHES * READINGS <= readings <= 2 * BATCHES * READINGS for readings in had)
        with site.serve():
            let_more_come(1, JOBS)
            wait_for_senders()
            wait_until(lambda: site.settled(3 * JOBS), 120, lambda: str(site.api("overview")["jobs"]))
            now_has = [stored_readings(site, sender) for sender in senders]
            assert now_has == [readings + READINGS for readings in had]
            jobs = site.api("overview")["jobs"]
            assert (jobs["ended"], jobs["profiled"]) == (3 * JOBS, 3 * JOBS)
    finally:
        stop.set()
    assert scheduler.jobs == 3 * JOBS
    engine = open_engine(site.database, "read")
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
        learned = text("SELECT sum(n) FROM series WHERE metric = 'runtime'")
        assert connection.execute(learned).scalar() == 3 * JOBS
    engine.dispose()


def restore(copy: Path, database: Path) -> None:
    """As docs/operate/operations.md says: the old log must not be applied to the copy."""
    for end in ("-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)
    copy.replace(database)


def stored_readings(site: Site, sender: Sender) -> int:
    """How many readings of this node are stored, each of which must be there once and as it was sent."""
    engine = open_engine(site.database, "read")
    with engine.connect() as connection:
        query = text("SELECT id FROM nodes WHERE name = :name")
        node_id = connection.execute(query, {"name": sender.node}).scalar_one()
        found = read_samples(connection, node_id, 0.0, 1e18)
    engine.dispose()
    begin = found.time[0]
    assert found.net_in_bytes.tolist() == [1000 * round(time - begin) for time in found.time]
    return len(found)
