"""Advice through HTTP: how long a submit plugin waits, beside a database of 300 users with 100 jobs each.

    python benchmarks/advice.py [--questions 2000] [--users 300] [--jobs 100]

Each question describes a job completely, in Slurm's words, on its own connection, one after the other. The first 200
are not counted. The server's CPU time is shown too: unlike the waits, it does not depend on other load.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import tempfile
import time
from pathlib import Path

from filled_server import Site, cpu_seconds, fill, free_address

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.schema import jobs

NOT_COUNTED = 200


def question(rng: random.Random, users: int) -> bytes:
    slurm = {"num_tasks": 4, "cpus_per_task": 1, "nodes": 1, "mem": "64G", "time_limit": "1-00:00:00"}
    job = {"cluster": "alpha", "user": f"user{rng.randrange(users):04}", "application": f"cfd_{rng.randrange(10**6)}"}
    return json.dumps({**job, "queue": "batch", "account": "physics", "slurm": slurm}).encode()


def measure(address: str, token: str, server: int, users: int, questions: int) -> dict[str, float]:
    rng, waits = random.Random(1), []
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Connection": "close"}
    begun = 0.0
    for number in range(NOT_COUNTED + questions):
        if number == NOT_COUNTED:
            begun = cpu_seconds(server)
        body = question(rng, users)
        connection = http.client.HTTPConnection(address, timeout=30)
        start = time.perf_counter()
        connection.request("POST", "/api/v1/advice", body, headers)
        answer = connection.getresponse().read()
        waits.append(time.perf_counter() - start)
        assert json.loads(answer)["such_jobs"] > 0
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=100, help="per user")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder) / "site", ["alpha"], free_address())
        engine = open_engine(site.database)
        with engine.begin() as connection:
            fill(connection, args.users, args.jobs)
            asked = {"requested_memory_bytes": 2**36, "requested_walltime_s": 86400.0}
            connection.execute(jobs.update().values(asked | {"name": "cfd_1", "application": "cfd", "queue": "batch"}))
        rebuild(engine)
        engine.dispose()
        with site.serve():
            assert site.process is not None
            address, token = site.url.removeprefix("http://"), site.token("submitter")
            found = measure(address, token, site.process.pid, args.users, args.questions)
    for name, value in found.items():
        print(f"{name:<16}{value:>10.3f}")


if __name__ == "__main__":
    main()
