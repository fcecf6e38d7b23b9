"""Three collectors, two query servers and a background server on one PostgreSQL, killed at random again and again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.server.postgresql import create, drop, url_of

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.samples import read_samples
from ports import taken
from site_run import JOBSIGHT, free_address, wait_until

from .killed_site import NODES, READINGS, Scheduler, Sender
from .test_kill import process_tree

CLUSTERS = ("alpha", "beta", "gamma")
KILLS = 15
BATCHES_A_ROUND, JOBS_A_ROUND = 40, 60


@pytest.fixture
def database(postgresql_url: str) -> Iterator[str]:
    """The URL of an empty database."""
    server = create_engine(make_url(postgresql_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    name = create(server)
    yield url_of(server, name)
    drop(server, name)
    server.dispose()


class Server:
    """`jobsight serve` with some roles, started again after each kill."""

    _given: ClassVar[set[str]] = set()

    def __init__(self, directory: Path, database: str, name: str, *options: str) -> None:
        self.address = self._address()
        self.log = directory / f"{name}.log"
        host, port = self.address.rsplit(":", 1)
        self._command = [
            *JOBSIGHT, "serve", "--database", database, "--listen", self.address,
            "--ingest-listen", f"{host}:{int(port) + 1}", "--query-workers", "1", "--clusters", " ".join(CLUSTERS),
            *options,
        ]  # fmt: skip
        self.ingest = f"{host}:{int(port) + 1}"
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def _address(cls) -> str:
        """Nothing listens at those of the others yet."""
        first = int(free_address().rsplit(":", 1)[1])
        for port in range(first, first + 1000, 2):
            address = f"127.0.0.1:{port}"
            if address not in cls._given and not (taken("127.0.0.1", port) or taken("127.0.0.1", port + 1)):
                cls._given.add(address)
                return address
        raise OSError("no two free ports in a row on 127.0.0.1")

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        return self.log.read_text().count("jobsight: ready") > 0

    def kill(self) -> None:
        assert self.process is not None
        for pid in process_tree(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(60) == 0, self.log.read_text()[-2000:]


def asked(server: Server, token: str, path: str) -> dict[str, object]:
    request = urllib.request.Request(
        f"http://{server.address}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        return dict(json.load(response))


def token(database: str, *options: str) -> str:
    command = [*JOBSIGHT, "token", "create", *options, "--database", database]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


class Questions(threading.Thread):
    """Asks two query servers in turn, of which one at most is down: one of them always answers."""

    def __init__(self, servers: list[Server], token: str, stop: threading.Event) -> None:
        super().__init__()
        self.answered, self.unanswered = 0, 0
        self._servers, self._token, self._stop_asking = servers, token, stop

    def run(self) -> None:
        while not self._stop_asking.wait(0.1):
            for server in self._servers:
                with contextlib.suppress(OSError, urllib.error.URLError, ValueError):
                    asked(server, self._token, "overview")
                    self.answered += 1
                    break
            else:
                self.unanswered += 1


@pytest.mark.slow
@pytest.mark.exhaustive
def test_killed_at_random_they_lose_nothing_and_double_nothing(database: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("JOBSIGHT_SEED", random.SystemRandom().randrange(10**6)))
    rng = random.Random(seed)
    print(f"JOBSIGHT_SEED={seed}")
    logs = tmp_path / "accounting"
    logs.mkdir()
    settings = ("--follow-interval-s", "0.05", "--profile-grace-s", "0")
    collectors = [Server(tmp_path, database, f"writer-{name}", "--only", f"writer:{name}") for name in CLUSTERS]
    queries = [Server(tmp_path, database, f"query-{n}", "--only", "query") for n in range(2)]
    background = Server(
        tmp_path, database, "background", "--only", "background", "--accounting", f"alpha={logs}", *settings
    )
    servers = [*collectors, *queries, background]
    stop, stop_asking = threading.Event(), threading.Event()
    try:
        for server in servers:  # all at once: one of them makes the tables
            server.start()
        for server in servers:
            wait_until(server.is_ready, 120, lambda server=server: server.log.read_text()[-2000:])
        agent, admin = token(database, "--role", "agent", "--any-cluster"), token(database, "--role", "admin")
        senders = [
            Sender(server.ingest, agent, node, stop, cluster)
            for server, cluster in zip(collectors, CLUSTERS, strict=True)
            for node in range(NODES)
        ]
        scheduler, questions = Scheduler(logs, stop), Questions(queries, admin, stop_asking)
        for thread in (*senders, scheduler, questions):
            thread.start()
        for number in range(KILLS):
            scheduler.allowed += JOBS_A_ROUND
            for sender in senders:
                sender.allowed += BATCHES_A_ROUND
            time.sleep(rng.uniform(0.5, 2.5))
            # Of the two query servers, the other one has been up for a while.
            victim = [*collectors, background, queries[number % 2]][number % 5 if number < 5 else rng.randrange(5)]
            victim.kill()
            victim.log.write_text("")
            victim.start()
            wait_until(victim.is_ready, 120, lambda victim=victim: victim.log.read_text()[-2000:])
        stop.set()
        for thread in (*senders, scheduler):
            thread.join(120)
            assert not thread.is_alive()
        ended = JOBS_A_ROUND * KILLS
        assert scheduler.jobs == ended

        def settled() -> bool:
            jobs = asked(queries[0], admin, "overview")["jobs"]
            assert isinstance(jobs, dict)
            return bool(jobs["ended"] >= ended and jobs["waiting"] == 0)

        wait_until(settled, 300, lambda: str(asked(queries[0], admin, "overview")["jobs"]))
        stop_asking.set()
        questions.join(60)
        assert (questions.unanswered, questions.answered > 50) == (0, True)
    finally:
        stop.set()
        stop_asking.set()
        for server in servers:
            server.stop()
    check(database, senders, scheduler)


def check(database: str, senders: list[Sender], scheduler: Scheduler) -> None:
    """The database against what was acknowledged and written."""
    engine = open_engine(database, "read")
    find = text("SELECT id FROM nodes WHERE cluster = :cluster AND name = :name")
    total = 0
    with engine.connect() as connection:
        for sender in senders:
            node_id = connection.execute(find, {"cluster": sender.cluster, "name": sender.node}).scalar_one()
            stored = read_samples(connection, node_id, 0.0, 1e18)
            total += len(stored)
            assert sender.acknowledged > KILLS
            assert sender.acknowledged * READINGS <= len(stored) <= (sender.acknowledged + 1) * READINGS
            assert stored.net_in_bytes.tolist() == [1000 * i for i in range(len(stored))]
        assert sum(sender.retries for sender in senders) > 0
        count = text("SELECT value FROM event_counts WHERE name = 'samples_stored'")
        assert connection.execute(count).scalar() == total
        jobs = connection.execute(text("SELECT job_id, count(*) AS n FROM jobs GROUP BY job_id")).all()
        assert {(row.job_id, row.n) for row in jobs} == {(f"{i}.server", 1) for i in range(scheduler.jobs)}
        learned = text("SELECT sum(n) FROM series WHERE metric = 'runtime'")
        assert connection.execute(learned).scalar() == scheduler.jobs
    engine.dispose()


def refused(*options: str, database: str) -> Callable[[], str]:
    command = [*JOBSIGHT, "serve", "--database", database, "--listen", free_address(), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return lambda: done.stderr


def test_what_cannot_be_served_together_is_refused(database: str, tmp_path: Path) -> None:
    wrong = refused("--only", "writer", database=database)()
    assert "--only 'writer': choose query, background, or writer:CLUSTER" in wrong
    assert "--only 'cook'" in refused("--only", "cook", database=database)()
    assert "several servers need PostgreSQL" in refused("--only", "query", database=f"sqlite:///{tmp_path / 'x.db'}")()
    alpha = Server(tmp_path, database, "alpha", "--only", "writer:alpha")
    alpha.start()
    try:
        wait_until(alpha.is_ready, 60, lambda: alpha.log.read_text())
        assert "another `jobsight serve` runs on database" in refused(database=database)()  # one with all roles
        agent = token(database, "--role", "agent", "--any-cluster")
        sender = Sender(alpha.ingest, agent, 0, threading.Event(), "beta")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(
                urllib.request.Request(
                    f"http://{alpha.ingest}/api/v1/samples", sender.batch(0), {"Authorization": f"Bearer {agent}"}
                ),
                timeout=20,
            )
        assert error.value.code == 403
        assert "cluster 'beta' is collected by another server, this one collects alpha" in error.value.read().decode()
        error.value.close()
        second = Server(tmp_path, database, "second", "--only", "writer:alpha,beta")
        second.start()
        assert second.process is not None
        assert second.process.wait(120) == 1
        assert "writer of alpha" in second.log.read_text()
    finally:
        alpha.stop()
