"""Six servers on one PostgreSQL database, any of them killed with SIGKILL again and again: nothing acknowledged is
lost or counted twice, every job is there once, and a query server that is left answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.samples import read_samples
from site_run import JOBSIGHT, free_address, wait_until

POSTGRESQL = os.environ.get("JOBSIGHT_TEST_POSTGRESQL", "postgresql://root@127.0.0.1:5432/test")
CLUSTERS = ("alpha", "beta", "gamma")
KILLS = 15
READINGS = 20
JOBS_A_KILL = 20


@pytest.fixture
def database() -> Iterator[str]:
    """A new database without tables."""
    url = make_url(POSTGRESQL).set(drivername="postgresql+psycopg")
    server: Engine = create_engine(url, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3})
    name = f"jobsight_servers_{os.getpid()}"
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError:
        pytest.skip(f"no PostgreSQL answers at {POSTGRESQL} (set JOBSIGHT_TEST_POSTGRESQL)")
    yield url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()


class Server:
    """`jobsight serve --only ROLE`, started again after each kill."""

    def __init__(self, directory: Path, database: str, role: str, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.role, self.address, self.ingest_address = role, address, f"{host}:{int(port) + 1}"
        flags = ["--database", database, "--listen", address, "--ingest-listen", self.ingest_address]
        flags += ["--query-workers", "1", "--follow-interval-s", "0.2", "--profile-interval-s", "0.2"]
        flags += ["--profile-grace-s", "0"]
        for cluster in CLUSTERS:
            flags += ["--accounting", f"{cluster}={directory / cluster}"]
        self._command = [*JOBSIGHT, "serve", "--only", role, *flags]
        self.log = directory / f"{role.replace(':', '-')}-{port}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        assert self.process is not None
        for pid in process_tree(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):
            for child in task.read_text().split():
                found += process_tree(int(child))
    return found


class Sender(threading.Thread):
    """Sends the batches of one node in order, each until it is acknowledged."""

    def __init__(self, server: Server, token: str, cluster: str, node: str, stop: threading.Event) -> None:
        super().__init__()
        self.cluster, self.node, self.acknowledged, self.retries, self.odd = cluster, node, 0, 0, set[int]()
        self._address, self._token, self._stop_sending = server.ingest_address, token, stop
        self._start_time = time.time() - 80_000

    def batch(self, sequence: int) -> bytes:
        index = range(sequence * READINGS, (sequence + 1) * READINGS)
        values = {
            "format": 1, "cluster": self.cluster, "node": self.node, "boot_id": "b", "sequence": sequence, "cpus": 16,
            "interfaces": [{"name": "eth0", "kind": "ethernet", "width_bits": 64, "speed_bps": 1e9}],
            "time": [self._start_time + i for i in index],
            "bytes_in": [[1000 * i for i in index]], "bytes_out": [[10 * i for i in index]],
            "memory_used_bytes": [2**30] * READINGS, "cpu_busy_s": [float(i) for i in index],
        }  # fmt: skip
        return json.dumps(values).encode()

    def run(self) -> None:
        while not self._stop_sending.is_set():
            status = self._post(self.batch(self.acknowledged))
            if status == 200:
                self.acknowledged += 1
            else:
                self.retries += 1
                if status not in {None, 503}:
                    self.odd.add(status)
            time.sleep(0.02)

    def _post(self, body: bytes) -> int | None:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/api/v1/samples", body, {"Authorization": f"Bearer {self._token}"})
            return connection.getresponse().status
        return None


def write_jobs(directory: Path, first: int, count: int) -> None:
    """Two accounting lines for each of these jobs of each cluster."""
    start = int(time.time()) - 80_000
    for cluster in CLUSTERS:
        with (directory / cluster / "20261101").open("a") as file:
            for job in range(first, first + count):
                began = start + job
                body = f"user=u{job % 5} group=g jobname=j queue=q ctime={began} qtime={began} etime={began} "
                body += f"start={began} owner=u@h exec_host=n0/0 Resource_List.walltime=01:00:00"
                ended = f"{body} session=1 end={began + 60} Exit_status=0 resources_used.cput=00:00:50 "
                ended += "resources_used.mem=1024kb resources_used.walltime=00:01:00"
                file.write(f"11/01/2026 00:00:01;S;{job}.{cluster};{body}\n")
                file.write(f"11/01/2026 00:00:01;E;{job}.{cluster};{ended}\n")
                file.flush()


def answers(server: Server, token: str) -> bool:
    """Whether it answers a question from the database."""
    url = f"http://{server.address}/api/v1/overview"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return "jobs" in json.load(answer)
    except (OSError, http.client.HTTPException):
        return False


def ready(server: Server) -> bool:
    return "jobsight: ready" in server.log.read_text() and server.process is not None


def make_token(database: str, role: str, *options: str) -> str:
    command = [*JOBSIGHT, "token", "create", "--role", role, *options, "--database", database]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_any_server_may_be_killed_at_any_time(tmp_path: Path, database: str) -> None:
    seed = int(os.environ.get("JOBSIGHT_SEED", random.SystemRandom().randrange(10**6)))
    rng = random.Random(seed)
    print(f"JOBSIGHT_SEED={seed}")
    for cluster in CLUSTERS:
        (tmp_path / cluster).mkdir()
    roles = [*(f"writer:{cluster}" for cluster in CLUSTERS), "query", "query", "background"]
    port = int(free_address().rsplit(":", 1)[1])
    servers = [Server(tmp_path, database, role, f"127.0.0.1:{port + 2 * i}") for i, role in enumerate(roles)]
    queries = [server for server in servers if server.role == "query"]
    stop, senders = threading.Event(), []
    try:
        for server in servers:  # all at once, on a database without tables
            server.start()
        wait_until(lambda: all(map(ready, servers)), 240, lambda: "\n".join(s.log.read_text()[-500:] for s in servers))
        agent, admin = make_token(database, "agent", "--any-cluster"), make_token(database, "admin")
        senders = [Sender(servers[i], agent, c, f"n{k}", stop) for i, c in enumerate(CLUSTERS) for k in range(2)]
        for sender in senders:
            sender.start()
        victims = servers + rng.choices(servers, k=KILLS - len(servers))  # each at least once
        rng.shuffle(victims)
        for number, victim in enumerate(victims):
            write_jobs(tmp_path, number * JOBS_A_KILL, JOBS_A_KILL)
            time.sleep(rng.uniform(0.1, 1.5))
            victim.kill()
            left = [server for server in queries if server is not victim]
            assert all(answers(server, admin) for server in left), f"{victim.role} was killed"
            victim.log.write_text("")
            victim.start()
            wait_until(lambda v=victim: ready(v), 120, lambda v=victim: v.log.read_text()[-2000:])
            if victim in queries:
                wait_until(lambda v=victim: answers(v, admin), 60, lambda v=victim: v.log.read_text()[-2000:])
        had = [sender.acknowledged for sender in senders]
        wait_until(
            lambda: all(s.acknowledged > before for s, before in zip(senders, had, strict=True)), 60, lambda: str(had)
        )
        wait_until(
            lambda: _learned(database) == KILLS * JOBS_A_KILL * len(CLUSTERS), 180, lambda: str(_learned(database))
        )
        stop.set()
        for sender in senders:
            sender.join(60)
    finally:
        stop.set()
        for sender in senders:
            sender.join(60)
        for server in servers:
            server.stop()
    _check(database, senders)


def _learned(database: str) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM jobs WHERE state = 'ended' AND profiled").fetchone()
    return int(row[0]) if row else 0


def _check(database: str, senders: list[Sender]) -> None:
    """The database against what was acknowledged and written."""
    engine = open_engine(database, "read")
    total = 0
    with engine.connect() as connection:
        for sender in senders:
            assert not sender.odd, sender.odd
            query = text("SELECT id FROM nodes WHERE cluster = :cluster AND name = :node")
            node_id = connection.execute(query, {"cluster": sender.cluster, "node": sender.node}).scalar_one()
            stored = read_samples(connection, node_id, 0.0, 1e18)
            total += len(stored)
            # What was sent last may have been stored without its acknowledgement having come through.
            assert sender.acknowledged * READINGS <= len(stored) <= (sender.acknowledged + 1) * READINGS
            assert stored.net_in_bytes.tolist() == [1000 * i for i in range(len(stored))]
        assert sum(sender.retries for sender in senders) > 0
        count = text("SELECT value FROM event_counts WHERE name = 'samples_stored'")
        assert connection.execute(count).scalar() == total
        jobs = connection.execute(text("SELECT cluster, job_id FROM jobs")).all()
        expected = {(c, f"{i}.{c}") for c in CLUSTERS for i in range(KILLS * JOBS_A_KILL)}
        assert len(jobs) == len(expected)
        assert {(row.cluster, row.job_id) for row in jobs} == expected
        learned = text("SELECT sum(n) FROM series WHERE metric = 'runtime'")
        assert connection.execute(learned).scalar() == len(expected)
    engine.dispose()
