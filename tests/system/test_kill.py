"""`kill -9` of the whole server in the middle of ingest and accounting, again and again: nothing acknowledged is
lost, nothing counts twice, every job is there once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from tests import make

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.samples import read_samples
from site_run import Site, wait_until

from .killed_site import NODES, READINGS, Scheduler, Sender

KILLS = 12
# What a node sends and what the scheduler writes is bounded, however fast or slow the machine is.
BATCHES_A_ROUND = 70
JOBS_A_ROUND = 100


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += process_tree(int(child))
    return found


@pytest.mark.slow
@pytest.mark.exhaustive
def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("JOBSIGHT_SEED", random.SystemRandom().randrange(10**6)))
    rng = random.Random(seed)
    print(f"JOBSIGHT_SEED={seed}")
    settings = ("--follow-interval-s", "0.05", "--profile-grace-s", "0")
    site = make.site(tmp_path / "site", *settings)
    stop = threading.Event()
    token, address = site.agent_token_file.read_text(), site.ingest_url.removeprefix("http://")
    senders = [Sender(address, token, node, stop) for node in range(NODES)]
    scheduler = Scheduler(site.accounting / "alpha", stop)
    try:
        for number in range(KILLS + 1):
            with site.serve():
                if number == 0:
                    for thread in (*senders, scheduler):
                        thread.start()
                scheduler.allowed += JOBS_A_ROUND
                for sender in senders:
                    sender.allowed += BATCHES_A_ROUND
                if number % 2 == 0:  # every other time it is killed before much has come through
                    had = [sender.acknowledged for sender in senders]
                    wait_until(
                        lambda had=had: all(
                            sender.acknowledged > before for sender, before in zip(senders, had, strict=True)
                        ),
                        120,
                        lambda: f"acknowledged: {[sender.acknowledged for sender in senders]}",
                    )
                time.sleep(rng.uniform(0.05, 1.0))
                if number < KILLS:
                    assert site.process is not None
                    for pid in process_tree(site.process.pid):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                else:
                    stop.set()
                    for thread in (*senders, scheduler):
                        thread.join(60)
                        assert not thread.is_alive()
                    assert scheduler.jobs == JOBS_A_ROUND * (KILLS + 1)
                    wait_until(lambda: site.settled(scheduler.jobs), 300, lambda: str(site.api("overview")["jobs"]))
    finally:
        stop.set()
    check(site, senders, scheduler)


def check(site: Site, senders: list[Sender], scheduler: Scheduler) -> None:
    """The database against what was acknowledged and written."""
    engine = open_engine(site.database, "read")
    with engine.connect() as connection:
        total = 0
        for sender in senders:
            assert sender.acknowledged > KILLS // 2, "too little was sent to prove anything"
            node_id = connection.execute(
                text("SELECT id FROM nodes WHERE name = :name"), {"name": sender.node}
            ).scalar_one()
            stored = read_samples(connection, node_id, 0.0, 1e18)
            total += len(stored)
            # What was sent last may have been stored without its acknowledgement having come through.
            assert sender.acknowledged * READINGS <= len(stored) <= (sender.acknowledged + 1) * READINGS
            assert stored.net_in_bytes.tolist() == [1000 * i for i in range(len(stored))]
        assert sum(sender.retries for sender in senders) > 0
        count = text("SELECT value FROM event_counts WHERE name = 'samples_stored'")
        assert connection.execute(count).scalar() == total
        jobs = connection.execute(text("SELECT job_id, count(*) AS n FROM jobs GROUP BY job_id")).all()
        assert {row.job_id for row in jobs} == {f"{i}.server" for i in range(scheduler.jobs)}
        assert {row.n for row in jobs} == {1}
        learned = text("SELECT sum(n) FROM series WHERE metric = 'runtime'")
        assert connection.execute(learned).scalar() == scheduler.jobs
        lines = connection.execute(text("SELECT sum(lines) FROM accounting_files")).scalar()
        assert lines == 2 * scheduler.jobs
        assert connection.execute(text("SELECT count(*) FROM accounting_rejects")).scalar() == 0
    engine.dispose()
