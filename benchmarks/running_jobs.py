"""What it costs to foresee the end of 10,000 running jobs: CPU seconds of one process, on SQLite.

    python benchmarks/running_jobs.py [--jobs 10000] [--users 500] [--ended 30000]

A site whose users each run a few applications is learned; then all the jobs run at once, with memory read so far.
Measured are a round that makes every outlook (after a restart of a site that had none), a round after one user in
twenty has ended a job, a round without news, and what the page Now, ``/metrics`` and alarms read: which of them will
run out within the hour.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert

from jobsight_server.forecasts import ForecastConfig
from jobsight_server.forecasts.outlooks import refresh_outlooks
from jobsight_server.profiler.run import profile_finished
from jobsight_server.queries.running_out import running_out
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.migrate import upgrade

NOW = 1_700_000_000.0
GIB = 2**30


def job(rng: random.Random, number: int, users: int, end: float | None) -> dict[str, Any]:
    """A job of one of the users, with one of four applications and three sizes."""
    user, application, size = rng.randrange(users), rng.randrange(4), rng.choice((1, 4, 16))
    length = 600.0 * (1 + user % 20) * (1 + application) * rng.lognormvariate(0.0, 0.3)
    start = NOW - rng.random() * 0.9 * length if end is None else end - length
    memory = (0.2 + 0.1 * application) * (1 + user % 7) * GIB * rng.lognormvariate(0.0, 0.2)
    return {
        "id": number, "cluster": "alpha", "job_id": f"{number}.s", "user": f"u{user}", "name": f"app{application}",
        "queue": f"q{size}", "start": start, "submitted": start, "end": end, "processors": size, "recorded_at": NOW,
        "state": "running" if end is None else "ended", "profiled": False, "requested_walltime_s": int(2.0 * length),
        "requested_memory_bytes": int(2 * memory) * size,
        "used_memory_bytes": None if end is None else int(memory) * size,
    }  # fmt: skip


def fill(engine: Engine, rng: random.Random, running: int, users: int, ended: int) -> None:
    """Learns the ended jobs, and stores the running ones."""
    times = sorted(NOW - 30 * 86400 * rng.random() for _ in range(ended))
    rows = [job(rng, i + 1, users, end) for i, end in enumerate(times)]
    rows += [job(rng, ended + i + 1, users, None) for i in range(running)]
    used = [
        {"run_id": row["id"], "until": NOW, "memory": rng.random() * 0.5 * row["requested_memory_bytes"]}
        | {"memory_processors": row["processors"], "growth": rng.random() * 1e5}
        for row in rows
        if row["end"] is None
    ]
    for each in used:
        each["memory"] /= each.pop("memory_processors")
    with engine.begin() as connection:
        for table, some in ((schema.jobs, rows), (schema.running_use, used)):
            connection.execute(insert(table), some)
        count_all(connection)
    profile_finished(engine, 0.0, lambda: NOW, limit=1000)


def end_some(engine: Engine, rng: random.Random, users: int, first: int) -> None:
    """Ends a job of one user in twenty."""
    rows = [job(rng, first + i, users, NOW - 1.0) | {"user": f"u{20 * i}"} for i in range(users // 20)]
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), rows)
    profile_finished(engine, 0.0, lambda: NOW)


def measured(title: str, work: Callable[[], Any]) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    found = work()
    number = len(found) if isinstance(found, list) else found
    print(f"| {title} | {number:,} | {time.process_time() - cpu:.2f} | {time.perf_counter() - began:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--ended", type=int, default=30_000)
    args = parser.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"sqlite:///{Path(folder) / 'jobsight.db'}")
        upgrade(engine)
        fill(engine, rng, args.jobs, args.users, args.ended)
        config = ForecastConfig()

        def read() -> list[Any]:
            with engine.connect() as connection:
                return running_out(connection, NOW)

        print("| round | outlooks or jobs | CPU s | wall s |\n| --- | --: | --: | --: |")
        measured("all outlooks made", lambda: refresh_outlooks(engine, config))
        end_some(engine, rng, args.users, args.jobs + args.ended + 1)
        measured("after one user in twenty ended a job", lambda: refresh_outlooks(engine, config))
        measured("without news", lambda: refresh_outlooks(engine, config))
        measured("which run out within the hour", read)
        engine.dispose()


if __name__ == "__main__":
    main()
