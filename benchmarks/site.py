"""The database of a large site, made in minutes, and what its pages and answers cost.

    python benchmarks/site.py make DATABASE [--jobs 2000000] [--users 5000] [--nodes 1000] [--days 90] [--sampled 100]
    python benchmarks/site.py measure DATABASE

``make`` writes an SQLite file: jobs with requests, nodes and the use of each metric, forecasts at submission, packed
readings of some of the nodes (``--sampled``; of the others only what they are); the counts and totals that a server
keeps are then counted by its own code. The model has learned nothing: what that costs, benchmarks/backlog.py measures.
The same arguments give the same site, but for its end, which is now.

``measure`` starts the server on it and asks for each page and route as a browser does: the median and the worst of some
rounds, CPU of the server, bytes of the first answer and of a poll of the same page.
"""

from __future__ import annotations

import argparse
import gzip
import html
import re
import sqlite3
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from filled_server import JOBSIGHT, free_address, wait_until
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from jobsight_server.auth.sessions import create_login
from jobsight_server.ingest.group_writer import ROW
from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.readings.samples import CHUNK_S
from jobsight_server.storage.readings.sent import deflate
from jobsight_server.storage.statistics import refresh_statistics
from jobsight_server.upgrade.migrate import upgrade

DAY_S, GIB = 86400.0, 2**30
_AT_ONCE = 20_000
_METRICS = ("memory", "cpu", "runtime", "bandwidth")
_JOB = (
    'INSERT INTO jobs (id, cluster, job_id, start, "end", state, "user", "group", account, name, application, queue, '
    "queued, processors, exit_status, requested_walltime_s, requested_memory_bytes, recorded_at, profiled, submitted, "
    f"forecast_seq, peak_memory_bytes) VALUES ({', '.join('?' * 22)})"
)
_PROFILE = (
    "INSERT INTO profiles (run_id, metric, learn_seq, value, source, attribution, forecast, bound, probability) "
    f"VALUES ({', '.join('?' * 9)})"
)


def make(args: argparse.Namespace) -> None:
    """Write the file; an existing one is left alone."""
    if args.database.exists():
        raise SystemExit(f"{args.database} exists: choose another file")
    url = f"sqlite:///{args.database}"
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()
    end = float(int(time.time()))
    rng = np.random.default_rng(args.seed)
    connection = sqlite3.connect(args.database)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("jobs", total=args.jobs)
        for first in range(0, args.jobs, _AT_ONCE):
            count = min(_AT_ONCE, args.jobs - first)
            _write_jobs(connection, rng, args, end, first, count)
            connection.commit()
            bar.advance(task, count)
        task = bar.add_task("nodes", total=args.nodes)
        for number in range(1, args.nodes + 1):
            _write_node(connection, rng, args, end, number)
            bar.advance(task)
        connection.commit()
        connection.close()
        engine = open_engine(url)
        task = bar.add_task("counts", total=3)
        with engine.begin() as writing:
            writing.execute(schema.learned_until.update().values(learn_seq=args.jobs))
            count_all(writing)
            mark_all(writing)
        bar.advance(task)
        count_marked(engine)
        bar.advance(task)
        refresh_statistics(engine)
        bar.advance(task)
    engine.dispose()
    print(f"{args.jobs:,} jobs, {args.nodes:,} nodes: {args.database.stat().st_size / 1e9:.2f} GB")


def _write_jobs(
    connection: sqlite3.Connection,
    rng: np.random.Generator,
    args: argparse.Namespace,
    end: float,
    first: int,
    count: int,
) -> None:
    """Write jobs ``first`` to ``first + count`` in order of their ends; the last ones still run."""
    last = end - (1 - (first + np.arange(1, count + 1)) / args.jobs) * args.days * DAY_S
    user = np.minimum(rng.zipf(1.25, count), args.users)
    application = (user * 7 + rng.geometric(0.4, count)) % 400
    hours = np.exp(rng.normal(0.0, 0.3, count)) * (1 + application % 12)
    processors = 2 ** ((user + application) % 6)
    memory = np.exp(rng.normal(0.0, 0.15, count)) * (0.2 + (application % 17) / 10) * GIB
    memory = np.where((user % 50 == 3) & (last > end - 14 * DAY_S), memory * rng.uniform(0.3, 2.0, count), memory)
    request = 2.2 * (0.2 + (application % 17) / 10) * GIB
    share, cpu = rng.lognormal(0.0, 0.1, count), rng.uniform(0.8, 1.0, count)
    node = rng.integers(1, args.nodes + 1, count)
    running = first + np.arange(count) >= args.jobs - args.running
    rows, nodes, profiles = [], [], []
    for i in range(count):
        run, begin, ends = first + i + 1, float(last[i] - hours[i] * 3600), float(last[i])
        if running[i]:
            begin, ends = end - float(hours[i]) * 1800, None
        name = f"application{application[i]}-{run % 40}"
        rows.append((
            run, "alpha", f"{run}.server", begin, ends, "running" if running[i] else "ended", f"user{user[i]:04}",
            f"group{user[i] % 40}", f"account{user[i] % 97}", name, f"application{application[i]}",
            f"queue{user[i] % 3}", begin - 600, int(processors[i]),
            None if running[i] else int(run % 50 == 0), float(hours[i] * 3600 * 2),
            int(request[i] * processors[i]), ends or begin, not running[i], begin - 600, run,
            None if running[i] else float(memory[i]),
        ))  # fmt: skip
        nodes.append((run, f"n{node[i]:04}", int(processors[i])))
        if not running[i]:
            used = (float(memory[i]), float(cpu[i]), float(hours[i] * 3600), 1e7 * float(share[i]))
            for metric, value in zip(_METRICS, used, strict=True):
                forecast = value * float(share[i])
                source = "samples" if metric == "bandwidth" else "accounting"
                profiles.append((run, metric, run, value, source, "exclusive", forecast, forecast * 1.3, 0.8))
    connection.executemany(_JOB, rows)
    connection.executemany("INSERT INTO job_nodes (run_id, node, processors) VALUES (?,?,?)", nodes)
    connection.executemany(_PROFILE, profiles)


def _write_node(
    connection: sqlite3.Connection, rng: np.random.Generator, args: argparse.Namespace, end: float, number: int
) -> None:
    silent = number % 200 == 7
    last = end - 5 * 3600 if silent else end
    facts: dict[str, Any] = {
        "id": number, "cluster": "alpha", "name": f"n{number:04}", "boot_id": f"b{number}", "cpus": 64,
        "memory_total_bytes": 256 * GIB, "interfaces": "[]", "agent": "{}",
        "first_time": end - args.days * DAY_S, "last_time": last, "received_at": last, "samples": 0, "wraps": 0,
        "resets": 0, "boots": 1, "missing": 0,
    }  # fmt: skip
    place = ", ".join("?" * len(facts))
    connection.execute(f"INSERT INTO nodes ({', '.join(facts)}) VALUES ({place})", tuple(facts.values()))
    if number > args.sampled:
        return
    rows = []
    begin = (end - args.days * DAY_S) // CHUNK_S * CHUNK_S
    total, cpu = 0, 0.0
    while begin < last:
        times = np.arange(begin, min(begin + CHUNK_S, last), 10.0)
        moved, busy = rng.integers(0, 10**8, len(times)).cumsum(), rng.uniform(0, 640, len(times)).cumsum()
        memory, nothing = rng.integers(10**9, 10**11, len(times)) // 4096 * 4096, np.full(len(times), np.nan)
        seconds = np.stack([times, np.round(cpu + busy, 2), nothing, np.zeros(len(times))])
        packed = deflate(seconds, np.stack([memory, total + moved, (total + moved) // 2]))
        span = (number, float(times[0]), float(times[-1]), len(times), float(times[-1]))
        rows.append((*span, number, len(rows), len(rows), 0, None, None, packed))
        total, cpu, begin = total + int(moved[-1]), cpu + float(busy[-1]), begin + CHUNK_S
    interfaces = b'[{"name":"eth0","kind":"ethernet","width_bits":64}]'
    connection.execute("INSERT INTO boots VALUES (?, ?, ?, ?)", (number, number, f"b{number}", interfaces))
    connection.executemany(ROW, rows)


PAGES = (
    "/", "/waste", "/waste?by=application", "/savings", "/accuracy", "/network", "/jobs", "/jobs?user=user0003",
    "/jobs?state=running", "/jobs?page=3000", "/job?cluster=alpha&name=1999.server", "/nodes", "/nodes?status=silent",
    "/node?cluster=alpha&name=n0003",
    "/users", "/user?cluster=alpha&name=user0003", "/mine?user=user0003", "/now",
)  # fmt: skip
ROUTES = (
    "/api/v1/now", "/api/v1/jobs", "/api/v1/nodes", "/api/v1/users", "/api/v1/waste", "/metrics",
    "/api/v1/predictions?cluster=alpha&user=user0003&metric=memory",
)  # fmt: skip


class TimedAnswer(NamedTuple):
    """One answer: ``size`` in bytes on the wire, seconds until it arrived, and the server's CPU seconds."""

    status: int
    size: int
    tag: str | None
    wall_s: float
    cpu_s: float
    text: str


class ServedSite:
    """`jobsight serve` on a database, with what its processes have spent."""

    def __init__(self, database: Path) -> None:
        self.address = free_address()
        host, port = self.address.rsplit(":", 1)
        self._command = [
            *JOBSIGHT, "serve", "--database", f"sqlite:///{database}", "--listen", self.address, "--ingest-listen",
            f"{host}:{int(port) + 1}", "--query-workers", "1",
        ]  # fmt: skip

    def __enter__(self) -> ServedSite:
        self._log = tempfile.TemporaryFile()
        self.process = psutil.Popen(self._command, stdout=self._log, stderr=self._log)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._log.close()

    def cpu_s(self) -> float:
        """CPU seconds of the answering process."""
        spent = 0.0
        for process in self.process.children(recursive=True):
            if process.name() == "jobsight query":
                times = process.cpu_times()
                spent += times.user + times.system
        return spent

    def log_in(self, secret: str) -> None:
        """Ask as a browser from now on, with the session's cookie."""
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self._browser.open(f"http://{self.address}/login", f"once={secret}".encode(), timeout=60).close()

    def ask(self, path: str, tag: str | None = None) -> TimedAnswer:
        """Get the answer as a browser does; 304 if its copy with this tag is current."""
        headers = {"Accept-Encoding": "gzip"} | ({"If-None-Match": tag} if tag else {})
        request = urllib.request.Request(f"http://{self.address}{path}", headers=headers)
        spent, begin = self.cpu_s(), time.perf_counter()
        try:
            with self._browser.open(request, timeout=120) as response:
                status, body, tag = response.status, response.read(), response.headers["ETag"]
                packed = response.headers["Content-Encoding"] == "gzip"
        except urllib.error.HTTPError as error:
            with error:
                status, body, packed = error.code, error.read(), False
        wall_s = time.perf_counter() - begin
        text = gzip.decompress(body).decode() if packed else body.decode()
        return TimedAnswer(status, len(body), tag, wall_s, self.cpu_s() - spent, text)


def measure(args: argparse.Namespace) -> None:
    """Print what each page and route costs."""
    with ServedSite(args.database) as server:
        begin = time.perf_counter()

        def answers() -> bool:
            try:
                urllib.request.urlopen(f"http://{server.address}/ready", timeout=60).close()
            except OSError:
                return False
            return True

        wait_until(answers, 300, lambda: "the server does not answer", pause_s=0.02)
        first_s = time.perf_counter() - begin
        engine = open_engine(f"sqlite:///{args.database}")
        with engine.begin() as connection:
            secret = create_login(connection, time.time())
        engine.dispose()
        server.log_in(secret)
        time.sleep(args.settle)
        rows = [{"path": path, **_cost(server, path, args.rounds)} for path in (*PAGES, *ROUTES)]
    table = Table(
        "path", "median ms", "worst ms", "CPU ms", "kB at first", "poll CPU ms", "poll kB", title=str(args.database)
    )
    for row in rows:
        poll = ("-", "-") if row["poll_cpu_ms"] is None else (f"{row['poll_cpu_ms']:.1f}", f"{row['poll_kb']:.1f}")
        cost = (f"{row['median_ms']:.0f}", f"{row['worst_ms']:.0f}", f"{row['cpu_ms']:.1f}", f"{row['kb']:.0f}")
        table.add_row(row["path"], *cost, *poll)
    Console(width=130).print(table)
    print(f"first answer {first_s:.1f} s after the start")


def _cost(server: ServedSite, path: str, rounds: int) -> dict[str, Any]:
    first = server.ask(path)
    if first.status != 200:
        raise SystemExit(f"{path}: {first.status} {first.text[:200]}")
    some = [server.ask(path) for _ in range(rounds)]
    found: dict[str, Any] = {
        "median_ms": 1e3 * statistics.median(one.wall_s for one in some),
        "worst_ms": 1e3 * max(one.wall_s for one in (first, *some)),
        "cpu_ms": 1e3 * statistics.fmean(one.cpu_s for one in some),
        "kb": first.size / 1e3,
        "poll_cpu_ms": None,
        "poll_kb": None,
    }
    if twin := re.search(r'data-json="([^"]+)"', first.text):
        address = html.unescape(twin[1])
        tag = server.ask(address).tag
        polls = []
        for _ in range(rounds):
            polls.append(server.ask(address, tag))
            tag = polls[-1].tag or tag
        found["poll_cpu_ms"] = 1e3 * statistics.fmean(one.cpu_s for one in polls)
        found["poll_kb"] = statistics.fmean(one.size for one in polls) / 1e3
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(required=True)
    making = actions.add_parser("make", help="make the database")
    making.add_argument("database", type=Path)
    for name, default in (("jobs", 2_000_000), ("users", 5000), ("nodes", 1000), ("days", 90), ("sampled", 100)):
        making.add_argument(f"--{name}", type=int, default=default)
    making.add_argument("--running", type=int, default=2000, help="jobs that have not ended")
    making.add_argument("--seed", type=int, default=1)
    making.set_defaults(run=make)
    measuring = actions.add_parser("measure", help="measure a server on it")
    measuring.add_argument("database", type=Path)
    measuring.add_argument("--rounds", type=int, default=7)
    measuring.add_argument("--settle", type=float, default=10.0, help="seconds from the start to the first question")
    measuring.set_defaults(run=measure)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
