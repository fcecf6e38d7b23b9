"""Advice through HTTP: how long a submit plugin waits, beside a database of 300 users with 100 jobs each.

    python benchmarks/advice.py [--questions 2000] [--users 300] [--jobs 100] [--json]

Each question describes a job completely, in Slurm's words, on its own connection, one after the other. The first 200
are not counted. The server's CPU time is shown too: unlike the waits, it does not depend on other load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from filled_server import ask, cpu_seconds, fill, free_port, wait_for

from jobsight_server.auth.tokens import create_token
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.schema import jobs
from jobsight_server.upgrade.migrate import upgrade

NOT_COUNTED = 200


def question(token: str, rng: random.Random, users: int) -> bytes:
    slurm = {"num_tasks": 4, "cpus_per_task": 1, "nodes": 1, "mem": "64G", "time_limit": "1-00:00:00"}
    job = {"cluster": "alpha", "user": f"user{rng.randrange(users):04}", "application": f"cfd_{rng.randrange(10**6)}"}
    body = json.dumps({**job, "queue": "batch", "account": "physics", "slurm": slurm}).encode()
    head = (
        f"POST /api/v1/advice HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def measure(port: int, token: str, server: int, users: int, questions: int) -> dict[str, float]:
    rng, waits = random.Random(1), []
    begun = 0.0
    for number in range(NOT_COUNTED + questions):
        if number == NOT_COUNTED:
            begun = cpu_seconds(server)
        request = question(token, rng, users)
        start = time.perf_counter()
        answer = ask(port, request)
        waits.append(time.perf_counter() - start)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), answer[:500]
        assert json.loads(body)["such_jobs"] > 0
    spent = cpu_seconds(server) - begun
    counted = sorted(waits[NOT_COUNTED:])
    return {
        "least_ms": counted[0] * 1e3,
        "p50_ms": counted[questions // 2] * 1e3,
        "p99_ms": counted[questions * 99 // 100] * 1e3,
        "within_100_ms": sum(wait < 0.1 for wait in counted) / questions,
        "server_cpu_ms": spent / questions * 1e3,
        "load_average": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=100, help="per user")
    parser.add_argument("--json", action="store_true", help="as JSON only")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobsight.db"
        engine = open_engine(url)
        upgrade(engine)
        with engine.begin() as connection:
            _, token = create_token(connection, "submitter", "benchmark", time.time())
            fill(connection, args.users, args.jobs)
            asked = {"requested_memory_bytes": 2**36, "requested_walltime_s": 86400.0}
            connection.execute(jobs.update().values(asked | {"name": "cfd_1", "application": "cfd", "queue": "batch"}))
        rebuild(engine)
        engine.dispose()
        port, ingest_port = free_port(), free_port()
        command = [sys.executable, "-m", "jobsight_server.cli", "serve", "--database", url]
        command += ["--listen", f"127.0.0.1:{port}", "--ingest-listen", f"127.0.0.1:{ingest_port}"]
        with Path(folder, "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(port)
            found = measure(port, token, server.pid, args.users, args.questions)
        finally:
            server.terminate()
            server.wait(40)
    if not args.json:
        for name, value in found.items():
            print(f"{name:<16}{value:>10.3f}")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
