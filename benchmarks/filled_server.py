"""A server with a database of many users, and the cost of its answers."""

from __future__ import annotations

import random
import socket
import time
import urllib.request

import psutil
from sqlalchemy import Connection, insert

from jobsight_server.storage import schema


def fill(connection: Connection, users: int, jobs: int) -> None:
    """Store this many finished jobs of each user, with their use."""
    rng = random.Random(1)
    typical = {"bandwidth": 1e7, "memory": 2e9, "cpu": 0.9, "runtime": 3600.0}
    for user in range(users):
        level = {metric: value * rng.lognormvariate(0, 1) for metric, value in typical.items()}
        first = user * jobs + 1
        runs, found = [], []
        for run in range(first, first + jobs):
            end = 1.7e9 + run
            runs.append(
                {"id": run, "cluster": "alpha", "job_id": f"{run}.server", "start": end - 3600, "end": end}
                | {"state": "ended", "user": f"user{user:04}", "processors": 4, "recorded_at": end, "profiled": True}
            )
            found += [
                {"run_id": run, "metric": metric, "learn_seq": run, "value": level[metric] * rng.lognormvariate(0, 0.3)}
                | {"source": "samples", "attribution": "exclusive"}
                for metric in level
            ]
        connection.execute(insert(schema.jobs), runs)
        connection.execute(insert(schema.profiles), found)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    """Return user and system seconds of a process and its descendants."""
    return sum(sum(one.cpu_times()[:2]) for one in family(pid))


def wait_for(port: int, path: str = "/ready") -> None:
    """Wait until this address answers without an error."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers {path} on port {port} within a minute")


def ask(port: int, request: bytes) -> bytes:
    """Return the whole answer, after which the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)
