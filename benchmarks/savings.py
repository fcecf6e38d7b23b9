"""The page of savings over a year of a large site.

    python benchmarks/savings.py [--jobs 2000000] [--users 1000] [--postgresql URL] [--json]

Jobs are counted into a temporary SQLite database as they are when they are learned, a day in a transaction: users of
whom few run most, each with some applications and two queues, and one who names each job differently. With
``--postgresql`` the same rows are copied into that empty database. Then, the best of three:

- ``page``: the page over the year, through the application
- ``by_...``: what it reads, sorted each way
- ``user``: what a user's page reads
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Engine, func, select

from jobsight_server.auth.sessions import create_login
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.queries.savings import BY, Asking
from jobsight_server.queries.waste import WasteRequest, waste
from jobsight_server.savings.kept import as_date
from jobsight_server.savings.totals import add_jobs
from jobsight_server.serve.app import create_app
from jobsight_server.settings import load_settings
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.event_counts import DAY_S
from jobsight_server.storage.migrate import upgrade

DAYS = 365
FIRST_DAY = 20_100
GIB = 2**30
TABLES = (schema.savings_groups, schema.savings)


class Job(NamedTuple):
    """What is read of a job and one of its profiles when it is counted."""

    cluster: str
    user: str
    name: str
    queue: str
    processors: int
    requested_memory_bytes: int
    requested_walltime_s: float
    start: float
    end: float
    metric: str
    value: float
    bound: float
    shown_only: bool = False
    lower_bound: bool = False


def jobs_of_day(rng: np.random.Generator, day: int, count: int, users: int) -> Iterator[Job]:
    """Jobs that end on this day, each with its two metrics."""
    user = np.minimum(rng.zipf(1.3, count), users)
    application, queue = rng.geometric(0.3, count), rng.integers(0, 2, count)
    hours, used = rng.lognormal(0.0, 1.0, count), rng.lognormal(0.0, 0.5, count)
    end = day * DAY_S + rng.uniform(0.0, DAY_S, count)
    for i in range(count):
        # The first one's jobs have the time of day in their names.
        name = f"sample-{day}-{i}x" if user[i] == 1 else f"application-{application[i]}-{user[i] % 7}x_{i}"
        seconds, memory = float(hours[i]) * 3600.0, float(used[i]) * GIB
        job = ("alpha", f"user{user[i]:05}", name, f"queue{queue[i]}", 8, 32 * GIB, 4 * seconds)
        times = (float(end[i]) - seconds, float(end[i]))
        yield Job(*job, *times, "memory", memory, 2.2 * GIB)
        yield Job(*job, *times, "runtime", seconds, 2.0 * 3600.0)


def fill(engine: Engine, jobs: int, users: int) -> float:
    """Counts the jobs; returns how many seconds each took."""
    rng = np.random.default_rng(1)
    begin = time.perf_counter()
    for day in range(FIRST_DAY, FIRST_DAY + DAYS):
        with engine.begin() as connection:
            add_jobs(connection, jobs_of_day(rng, day, jobs // DAYS, users))
    return (time.perf_counter() - begin) / (jobs // DAYS * DAYS)


def copy(source: Engine, target: Engine) -> None:
    """The same rows in another database."""
    with source.connect() as connection, target.begin() as into:
        for table in TABLES:
            names = ", ".join(f'"{column.name}"' for column in table.c)
            with into.connection.cursor().copy(f"COPY {table.name} ({names}) FROM STDIN") as rows:
                for row in connection.execute(select(table)):
                    rows.write_row(tuple(row))
    with target.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


class Seconds(NamedTuple):
    """Wall time, and CPU time of this process: with SQLite all of it."""

    wall: float
    cpu: float


def measure(engine: Engine, url: str) -> dict[str, Seconds]:
    """The time of each."""
    reader = AnswerReader(engine, ForecastConfig())
    last = FIRST_DAY + DAYS - 1
    # Neither begins nor ends with a month.
    year = {"first": FIRST_DAY, "last": last - 1}
    requests = {f"by_{by}": WasteRequest(by=by, **year) for by in BY}
    thirty = {"first": last - 29, "last": last}
    requests["thirty_days"] = WasteRequest(**thirty)
    requests["user"] = WasteRequest(**thirty, by="application", cluster="alpha", user="user00002", limit=1)

    def ask(request: WasteRequest) -> None:
        with engine.connect() as connection:
            assert waste(connection, Asking(connection, reader), request).rows

    found = {name: best(lambda request=request: ask(request)) for name, request in requests.items()}
    client = create_app(load_settings(flags={"database": url}), engine, engine).test_client()
    with engine.begin() as connection:
        secret = create_login(connection, time.time())
    client.get("/login", query_string={"once": secret})
    asked = {"since": as_date(year["first"]).isoformat(), "until": as_date(year["last"]).isoformat()}

    def show() -> None:
        assert client.get("/waste", query_string=asked).status_code == 200

    return {"page": best(show), **found}


def best(do: Callable[[], None], times: int = 3) -> Seconds:
    """The least of some runs: other work on the machine only adds to it."""
    took = []
    for _ in range(times):
        begin, cpu = time.perf_counter(), time.process_time()
        do()
        took.append((time.perf_counter() - begin, time.process_time() - cpu))
    return Seconds(*(min(column) for column in zip(*took, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2_000_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to measure as well")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory) / 'savings.db'}"
        engine = open_engine(url)
        upgrade(engine)
        found: dict[str, Any] = {"jobs": args.jobs, "counted_s_per_job": fill(engine, args.jobs, args.users)}
        with engine.connect() as connection:
            for table in TABLES:
                found[f"rows_{table.name}"] = connection.scalar(select(func.count()).select_from(table))
        found["database_bytes"] = Path(engine.url.database or "").stat().st_size
        found["sqlite"] = measure(engine, url)
        if args.postgresql:
            other = open_engine(args.postgresql)
            upgrade(other)
            copy(engine, other)
            found["postgresql"] = measure(other, args.postgresql)
            other.dispose()
        engine.dispose()
    if args.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print(
                f"{name}: "
                + ", ".join(f"{key} {took.wall * 1e3:.0f} ms ({took.cpu * 1e3:.0f} CPU)" for key, took in value.items())
            )
        else:
            print(f"{name}: {value:,.7g}")


if __name__ == "__main__":
    main()
