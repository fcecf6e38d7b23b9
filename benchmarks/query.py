"""Questions through HTTP: how many a second, how fast, beside a database of 1,000 users with 100 jobs each.

    python benchmarks/query.py [--seconds 8] [--users 1000] [--jobs 100] [--workers 2] [--json]

The database is filled through the real tables (runs, their profiles) and learned by `rebuild`; the server is the real
`jobsight serve` with its three roles. `wrk` keeps its connections; the other clients open a new one for each question.

- Saturated: `wrk` (one thread, closed loop, a random user each time) with 1, 16 and 64 connections.
- Paced: an open loop. 16 clients ask in turn, so that together they start 1,000 questions a second at even spacing;
  a latency counts from the moment when the question was due, so that a server that stalls is not flattered.
- Batch: 1,000 questions in one request, one request after the other.

CPU seconds of the server's processes per question are given as well: unlike the rates they do not depend on what else
the machine does, and `cores / CPU seconds` bounds the rate that it could reach.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from jobsight_predictor.metrics import metrics_of
from jobsight_server.auth import create_token
from jobsight_server.forecasts import rebuild
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.systems.migrate import upgrade

WINGS = ("agent", "predictor", "scheduler", "server")
RATE, PACED_CLIENTS = 1000, 16
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def fill(connection: Connection, users: int, jobs: int) -> None:
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


def cpu_seconds(pid: int) -> float:
    """User and system seconds of a process and its descendants."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    total = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            total += cpu_seconds(int(child))
    return total


def wait_until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not come up within a minute")


def question(token: str, user: int) -> bytes:
    target = f"/api/v1/predictions?cluster=alpha&user=user{user:04}&metric=memory"
    return f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def ask(port: int, request: bytes) -> bytes:
    """The whole answer; the server closes the connection after it."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def saturated(port: int, token: str, users: int, connections: int, seconds: float) -> dict[str, Any]:
    """By `wrk`; where there is none, by one Python thread per connection, which costs more CPU than the server."""
    if shutil.which("wrk") is None:
        return by_threads(port, token, users, connections, seconds, rate=None)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        path = "/api/v1/predictions?cluster=alpha&user=user%04d&metric=memory"
        target = f'string.format("{path}", math.random(0, {users - 1}))'
        script.write(
            f'math.randomseed(1)\nlocal h = {{["Authorization"] = "Bearer {token}"}}\n'
            f'request = function() return wrk.format("GET", {target}, h) end\n'
        )
        script.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}", "--latency", "-s", script.name]
        out = subprocess.run([*command, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True).stdout

    def percentile(name: str) -> float:
        number, unit = re.search(rf"{name}%\s+([\d.]+)(us|ms|s)", out).groups()  # type: ignore[union-attr]
        return float(number) * UNITS_MS[unit]

    requests = int(re.search(r"(\d+) requests in", out)[1])  # type: ignore[index]
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    lost = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    return {
        "client": "wrk",
        "questions": requests,
        "per_s": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),  # type: ignore[index]
        "p50_ms": percentile("50"),
        "p99_ms": percentile("99"),
        "failed": int(failed[1]) if failed else 0,
        "socket_errors": sum(map(int, lost.groups())) if lost else 0,
    }


def by_threads(
    port: int, token: str, users: int, connections: int, seconds: float, rate: float | None
) -> dict[str, Any]:
    """One thread per connection; at an even ``rate`` of all together, or each as fast as it is answered."""
    latencies: list[list[float]] = [[] for _ in range(connections)]
    failed = [0] * connections
    begin = time.perf_counter() + 0.2

    def client(number: int) -> None:
        rng = random.Random(number)
        asked = 0
        while True:
            due = time.perf_counter()
            if rate is not None:
                due = begin + (number + asked * connections) / rate
                time.sleep(max(0.0, due - time.perf_counter()))
            if due >= begin + seconds:
                return
            asked += 1
            answer = ask(port, question(token, rng.randrange(users)))
            latencies[number].append(time.perf_counter() - due)
            failed[number] += not (answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"]}"))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    found = sorted(latency for some in latencies for latency in some)
    return {
        "client": "python threads",
        "questions": len(found),
        "per_s": len(found) / took,
        "p50_ms": found[len(found) // 2] * 1e3,
        "p99_ms": found[len(found) * 99 // 100] * 1e3,
        "failed": sum(failed),
        "socket_errors": 0,
    }


def batches(port: int, token: str, users: int, times: int = 300) -> dict[str, Any]:
    """One request of 1,000 questions after the other."""
    rng = random.Random(2)
    took = []
    for _ in range(times):
        metrics = list(metrics_of(gpus=False))
        asked = [
            {"cluster": "alpha", "user": f"user{rng.randrange(users):04}", "metric": rng.choice(metrics)}
            for _ in range(1000)
        ]
        body = json.dumps({"questions": asked}).encode()
        head = (
            f"POST /api/v1/predictions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        start = time.perf_counter()
        answer = ask(port, head.encode() + body)
        took.append(time.perf_counter() - start)
        answers = json.loads(answer.partition(b"\r\n\r\n")[2])["predictions"]
        assert [a["user"] for a in answers] == [a["user"] for a in asked]
        assert all(a["value"] is not None for a in answers)
    first = took[0]
    took.sort()
    return {
        "batches": times,
        "first_ms": first * 1e3,
        "max_ms": took[-1] * 1e3,
        "p50_ms": took[times // 2] * 1e3,
        "p99_ms": took[times * 99 // 100] * 1e3,
    }


def measure(port: int, token: str, pid: int, users: int, seconds: float) -> dict[str, Any]:
    def with_cpu(run: Any) -> dict[str, Any]:
        before = cpu_seconds(pid)
        found: dict[str, Any] = run()
        spent = cpu_seconds(pid) - before
        return {**found, "server_cpu_us_per_question": spent / max(1, found["questions"]) * 1e6}

    by_threads(port, token, users, 4, 1.0, rate=None)  # caches warm, statements prepared
    rows = {f"saturated_{n}": with_cpu(lambda n=n: saturated(port, token, users, n, seconds)) for n in (1, 16, 64)}
    paced = with_cpu(lambda: by_threads(port, token, users, PACED_CLIENTS, seconds, RATE))
    load = os.getloadavg()
    return {**rows, "paced_1000_per_s": paced, "batch_of_1000": batches(port, token, users), "load_average": load}


def show(found: dict[str, Any]) -> None:
    head = ("", "questions/s", "p50 ms", "p99 ms", "server CPU us each", "failed")
    print("{:<22}{:>12}{:>10}{:>10}{:>20}{:>8}".format(*head))
    for name, row in found["results"].items():
        if "per_s" in row:
            print(
                f"{name:<22}{row['per_s']:>12.0f}{row['p50_ms']:>10.2f}{row['p99_ms']:>10.2f}"
                f"{row['server_cpu_us_per_question']:>20.0f}{row['failed'] + row['socket_errors']:>8}"
            )
    batch = found["results"]["batch_of_1000"]
    print(f"{'batch_of_1000':<22}{'':>12}{batch['p50_ms']:>10.2f}{batch['p99_ms']:>10.2f}")
    print(f"load average of the machine at the end: {found['results']['load_average'][0]:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement")
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=100, help="per user")
    parser.add_argument("--workers", type=int, default=2, help="query workers of the server")
    parser.add_argument("--json", action="store_true", help="as JSON only")
    args = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobsight.db"
        engine = open_engine(url)
        upgrade(engine)
        with engine.begin() as connection:
            _, token = create_token(connection, "scheduler", "benchmark", time.time())
            fill(connection, args.users, args.jobs)
        learned = rebuild(engine)
        engine.dispose()
        port, ingest_port = free_port(), free_port()
        command = [sys.executable, "-m", "jobsight_server.cli", "serve", "--database", url]
        command += ["--listen", f"127.0.0.1:{port}", "--ingest-listen", f"127.0.0.1:{ingest_port}"]
        command += ["--query-workers", str(args.workers)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(root / wing) for wing in WINGS)}
        with Path(folder, "log").open("wb") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_until_ready(port, server)
            results = measure(port, token, server.pid, args.users, args.seconds)
        finally:
            server.terminate()
            server.wait(40)
    found = {"users": args.users, "jobs_per_user": args.jobs, "series": learned, "cpus": os.cpu_count()}
    found = {**found, "query_workers": args.workers, "results": results}
    if not args.json:
        show(found)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
