"""`kill -9` of the whole server in the middle of ingest and accounting, again and again: nothing acknowledged is
lost, nothing counts twice, every job is there once."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.samples import read_samples
from site_run import Site, free_address, wait_until

KILLS = 12
READINGS = 20
NODES = 4
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


class Sender(threading.Thread):
    """Sends the batches of one node in order, as many as are ``allowed``, each until it is acknowledged."""

    def __init__(self, site: Site, node: int, stop: threading.Event) -> None:
        super().__init__()
        self.node, self.acknowledged, self.allowed, self.retries = f"n{node:03}", 0, 0, 0
        self._stop_sending, self._token = stop, site.agent_token_file.read_text()
        self._address = site.ingest_url.removeprefix("http://")
        self._start_time = time.time() - 80_000

    def batch(self, sequence: int) -> bytes:
        index = range(sequence * READINGS, (sequence + 1) * READINGS)
        return json.dumps(
            {
                "format": 1,
                "cluster": "alpha",
                "node": self.node,
                "boot_id": "b",
                "sequence": sequence,
                "cpus": 16,
                "interfaces": [{"name": "eth0", "kind": "ethernet", "width_bits": 64, "speed_bps": 1e9}],
                "time": [self._start_time + i for i in index],
                "bytes_in": [[1000 * i for i in index]],
                "bytes_out": [[10 * i for i in index]],
                "memory_used_bytes": [2**30] * READINGS,
                "cpu_busy_s": [float(i) for i in index],
            }
        ).encode()

    def run(self) -> None:
        while not self._stop_sending.is_set():
            if self.acknowledged >= self.allowed:
                time.sleep(0.01)
                continue
            status = self._post(self.batch(self.acknowledged))
            if status == 200:
                self.acknowledged += 1
            else:
                self.retries += 1
                time.sleep(0.02)

    def _post(self, body: bytes) -> int | None:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/api/v1/samples", body, {"Authorization": f"Bearer {self._token}"})
            return connection.getresponse().status
        return None


class Scheduler(threading.Thread):
    """Writes an accounting log: two lines per job, now and then a new day's file, each line in two pieces.

    It writes as many as are ``allowed``, and ends when these are written and ``stop`` is set.
    """

    def __init__(self, directory: Path, stop: threading.Event) -> None:
        super().__init__()
        self.jobs, self.allowed, self._directory, self._stop_writing = 0, 0, directory, stop

    def run(self) -> None:
        start = int(time.time()) - 80_000
        while self.jobs < self.allowed or not self._stop_writing.is_set():
            if self.jobs >= self.allowed:
                time.sleep(0.01)
                continue
            job, began = f"{self.jobs}.server", start + self.jobs
            body = f"user=u{self.jobs % 5} group=g jobname=j queue=q ctime={began} qtime={began} etime={began} "
            body += f"start={began} owner=u@h exec_host=n00{self.jobs % NODES}/0 Resource_List.walltime=01:00:00"
            ended = f"{body} session=1 end={began + 60} Exit_status=0 resources_used.cput=00:00:50 "
            ended += "resources_used.mem=1024kb resources_used.walltime=00:01:00"
            with (self._directory / f"202611{1 + self.jobs // 300:02}").open("a") as file:
                for kind, message in (("S", body), ("E", ended)):
                    line = f"11/19/2026 00:00:01;{kind};{job};{message}\n"
                    file.write(line[:50])
                    file.flush()
                    file.write(line[50:])
            self.jobs += 1
            time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("JOBSIGHT_SEED", random.SystemRandom().randrange(10**6)))
    rng = random.Random(seed)
    print(f"JOBSIGHT_SEED={seed}")
    settings = ("--follow-interval-s", "0.05", "--profile-interval-s", "0.1", "--profile-grace-s", "0")
    settings += ("--query-workers", "1")
    site = Site(tmp_path / "site", ["alpha"], free_address(), settings)
    stop = threading.Event()
    senders = [Sender(site, node, stop) for node in range(NODES)]
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
