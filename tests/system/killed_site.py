"""What is sent to servers that are killed again and again: batches of nodes, and a scheduler's log; what must be stored
of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import Connection, text
from tests import make

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.readings.sample_columns import SampleColumns
from jobsight_server.storage.readings.samples import read_samples
from site_run import Site, free_address, wait_until

READINGS = 20
NODES = 4


class Sender(threading.Thread):
    """Sends the batches of one node in order, as many as are ``allowed``, each until it is acknowledged."""

    def __init__(self, address: str, token: str, node: int, stop: threading.Event, cluster: str = "alpha") -> None:
        super().__init__()
        self.cluster, self.node, self.acknowledged, self.allowed, self.retries = cluster, f"n{node:03}", 0, 0, 0
        self._stop_sending, self._token, self._address = stop, token, address
        self._start_time = time.time() - 80_000

    def batch(self, sequence: int) -> bytes:
        index = range(sequence * READINGS, (sequence + 1) * READINGS)
        return json.dumps(
            {
                "format": 1,
                "cluster": self.cluster,
                "node": self.node,
                "boot_id": f"b{self.cluster}",
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


class Server(make.RunningSite):
    """`jobsight serve` with some or all roles, started again after each kill."""

    def __init__(self, directory: Path, database: str | None, clusters: tuple[str, ...], *options: str) -> None:
        self._shared = database
        first = int(free_address().rsplit(":", 1)[1])
        directory.mkdir()
        listen = f"127.0.0.1:{first + 2 * len(list(directory.parent.iterdir()))}"
        super().__init__(directory, clusters, listen, ("--query-workers", "1", *options))
        self._life = ExitStack()

    def _set_places(self, directory: Path, listen: str) -> None:
        super()._set_places(directory, listen)
        self.database = self._shared or self.database

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        return "jobsight: ready" in self.log.read_text()

    def start(self) -> None:
        self.log.write_text("")
        self._life.enter_context(self.serve())

    def start_again(self) -> None:
        self.kill()
        self._life.close()
        self.start()

    def stop(self) -> None:
        self._life.close()
        assert self.process is None or self.process.returncode == 0, self.log.read_text()[-2000:]


class Work:
    """Senders of ``NODES`` nodes to the collector of each cluster and a scheduler, let go in rounds."""

    def __init__(self, collectors: Mapping[str, Site], logs: Path) -> None:
        self.stop = threading.Event()
        self.senders = [
            Sender(site.ingest_url.removeprefix("http://"), site.agent_token_file.read_text(), node, self.stop, cluster)
            for cluster, site in collectors.items()
            for node in range(NODES)
        ]
        self.scheduler = Scheduler(logs, self.stop)

    def start(self) -> None:
        for thread in (*self.senders, self.scheduler):
            thread.start()

    def let_go(self, batches: int, jobs: int) -> None:
        """Let each node send so many batches more, and the scheduler write so many jobs more."""
        self.scheduler.allowed += jobs
        for sender in self.senders:
            sender.allowed += batches

    def wait_for_more(self, all_allowed: bool = False) -> None:
        """Wait until each node's next batch, or all that it may send, is acknowledged."""
        wanted = [
            sender.allowed if all_allowed else min(sender.acknowledged + 1, sender.allowed) for sender in self.senders
        ]
        wait_until(
            lambda: all(one.acknowledged >= least for one, least in zip(self.senders, wanted, strict=True)),
            120,
            lambda: f"acknowledged: {[sender.acknowledged for sender in self.senders]}",
        )

    def end(self) -> None:
        self.stop.set()
        for thread in (*self.senders, self.scheduler):
            thread.join(120)
            assert not thread.is_alive()

    def check(self, database: str, least: int) -> None:
        """The database against what was acknowledged and written; each node has had ``least`` batches acknowledged."""
        engine = open_engine(database, "read")
        total = 0
        with engine.connect() as connection:
            for sender in self.senders:
                stored = readings_of(connection, sender)
                total += len(stored)
                assert sender.acknowledged > least, "too little was sent to prove anything"
                # What was sent last may have been stored without its acknowledgement having come through.
                assert sender.acknowledged * READINGS <= len(stored) <= (sender.acknowledged + 1) * READINGS
                assert stored.net_in_bytes.tolist() == [1000 * i for i in range(len(stored))]
            assert sum(sender.retries for sender in self.senders) > 0
            count = text("SELECT value FROM event_counts WHERE name = 'samples_stored'")
            assert connection.execute(count).scalar() == total
            jobs = connection.execute(text("SELECT job_id, count(*) AS n FROM jobs GROUP BY job_id")).all()
            assert {(row.job_id, row.n) for row in jobs} == {(f"{i}.server", 1) for i in range(self.scheduler.jobs)}
            for query, expected in (
                ("SELECT sum(n) FROM series WHERE metric = 'runtime'", self.scheduler.jobs),
                ("SELECT sum(lines) FROM accounting_files", 2 * self.scheduler.jobs),
                ("SELECT count(*) FROM accounting_rejects", 0),
            ):
                assert connection.execute(text(query)).scalar() == expected, query
        engine.dispose()


def readings_of(connection: Connection, sender: Sender) -> SampleColumns:
    """What is stored of the sender's node."""
    query = text("SELECT id FROM nodes WHERE cluster = :cluster AND name = :name")
    node_id = connection.execute(query, {"cluster": sender.cluster, "name": sender.node}).scalar_one()
    return read_samples(connection, node_id, 0.0, 1e18)
