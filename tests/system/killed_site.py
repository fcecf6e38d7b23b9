"""What is sent to a server that is killed again and again: batches of nodes, and a scheduler's log."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from pathlib import Path

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
