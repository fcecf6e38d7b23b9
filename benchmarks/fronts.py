"""HTTP fronts for WSGI side by side: throughput, memory, and what is left of them beside slow clients.

    python benchmarks/fronts.py --peers /path/to/python [--seconds 5] [--connections 200]

`--peers` is an interpreter that has waitress, granian and gunicorn, in an environment of their own. Each front runs in
one process with the same small application (some 60 microseconds of work, 1 KB). First `wrk` on 16 connections, kept
and then closed after each answer; then, for each kind of `hostile.py`, `--connections` of that kind alone while
one honest client asks, each time on a new connection. Only 127.0.0.1 is connected to; it stops by itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import hostile
import query

APPLICATION = """
def app(environ, start_response):
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    sum(range(4000))
    body = b"x" * (60_000 if environ["PATH_INFO"] == "/login" else 1000)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""
OURS = """
import sys, tiny
from jobsight_server.front.lanes import Lane
from jobsight_server.front.limits import Limits
from jobsight_server.front.server import Front, listen, run
lane = Lane("app", 4) if sys.argv[2] == "threads" else None
front = Front(tiny.app, lambda method, path: lane, Limits(held_bytes=2**23), lambda method, path: 2**22)
run(front, listen("127.0.0.1:" + sys.argv[1]), 1.0)
"""
WAITRESS = """
import sys, tiny, waitress
waitress.serve(tiny.app, listen="127.0.0.1:" + sys.argv[1], threads=4, connection_limit=1000, asyncore_use_poll=True)
"""
PATIENCE_S = 3.0


def commands(peers: str, port: int) -> dict[str, list[str]]:
    """Front -> what starts it; one process that answers."""
    found = {
        "Jobsight, in the loop": [sys.executable, "-c", OURS, str(port), "loop"],
        "Jobsight, 4 threads": [sys.executable, "-c", OURS, str(port), "threads"],
    }
    if peers:
        bind = ["-b", f"127.0.0.1:{port}", "-w", "1", "--log-level", "critical"]
        granian = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--blocking-threads", "4"]
        found |= {
            "waitress, 4 threads": [peers, "-c", WAITRESS, str(port)],
            "granian, 4 threads": [peers, "-m", "granian", "--interface", "wsgi", *granian, "--no-log", "tiny:app"],
            "gunicorn, sync": [peers, "-m", "gunicorn", *bind, "tiny:app"],
            "gunicorn, 4 threads": [peers, "-m", "gunicorn", *bind, "-k", "gthread", "--threads", "4", "tiny:app"],
        }
    return found


def load(port: int, pid: int, seconds: float, *flags: str) -> dict[str, float]:
    before = query.cpu_seconds(pid)
    command = ["wrk", "-t1", "-c16", f"-d{seconds:g}", "--latency", *flags, f"http://127.0.0.1:{port}/health"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    requests = int(re.search(r"(\d+) requests in", out)[1])  # type: ignore[index]
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()  # type: ignore[union-attr]
    return {
        "per_s": requests / seconds,
        "p99_ms": float(number) * query.UNITS_MS[unit],
        "cpu_us": (query.cpu_seconds(pid) - before) / max(1, requests) * 1e6,
    }


def ask(port: int) -> float | None:
    """Seconds to an answer, None where there is none in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    began = time.perf_counter()
    try:
        connection.request("GET", "/health")
        return time.perf_counter() - began if connection.getresponse().read() else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def beside(port: int, kind: str, connections: int, seconds: float) -> dict[str, Any]:
    """What one honest client gets beside ``connections`` of one kind."""
    ready, stop = threading.Event(), threading.Event()
    crowd = threading.Thread(target=hostile.crowd, args=(port, connections, ready, stop, Counter(), (kind,)))
    crowd.start()
    try:
        ready.wait(60)
        until, times = time.monotonic() + seconds, []
        while time.monotonic() < until:
            times.append(ask(port))
            time.sleep(0.02)
    finally:
        stop.set()
        crowd.join()
    good = [one * 1e3 for one in times if one is not None]
    return {
        "asked": len(times),
        "answered": len(good),
        "median_ms": statistics.median(good) if good else None,
        "worst_ms": max(good, default=None),
    }


def measure(command: list[str], port: int, directory: Path, args: argparse.Namespace) -> dict[str, Any]:
    environ = {**os.environ, "PYTHONPATH": str(directory)}
    with subprocess.Popen(command, cwd=directory, env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 30
            while ask(port) is None and time.monotonic() < until:
                time.sleep(0.1)
            found: dict[str, Any] = {"kept": load(port, process.pid, args.seconds)}
            found["closed"] = load(port, process.pid, args.seconds, "-H", "Connection: close")
            for kind in hostile.KINDS:
                found[kind] = beside(port, kind, args.connections, args.seconds)
            found["resident_bytes"] = hostile.resident_bytes(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    return found


def cell(row: dict[str, Any]) -> str:
    if row["answered"] == row["asked"]:
        return f"{row['median_ms']:.1f} / {row['worst_ms']:.0f}"
    return f"{row['asked'] - row['answered']} of {row['asked']} lost"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="", help="interpreter with waitress, granian and gunicorn")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.connections = min(args.connections, hostile.MOST_CONNECTIONS)
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "tiny.py").write_text(APPLICATION)
        for name in commands(args.peers, 0):
            port = query.free_port()
            results[name] = measure(commands(args.peers, port)[name], port, Path(directory), args)
            print(f"{name}: done", file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps(results))
        return
    head = ("kept/s", "p99 ms", "CPU us", "closed/s", "MB", *hostile.KINDS)
    print("| front | " + " | ".join(head) + " |\n|" + "---|" * (len(head) + 1))
    for name, row in results.items():
        figures = [f"{row['kept']['per_s']:,.0f}", f"{row['kept']['p99_ms']:.1f}", f"{row['kept']['cpu_us']:.0f}"]
        figures += [f"{row['closed']['per_s']:,.0f}", f"{row['resident_bytes'] / 1e6:.0f}"]
        print(f"| {name} | " + " | ".join(figures + [cell(row[kind]) for kind in hostile.KINDS]) + " |")


if __name__ == "__main__":
    main()
