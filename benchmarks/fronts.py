"""HTTP servers side by side: throughput, memory, and what is left of them beside slow clients.

    python benchmarks/fronts.py --peers /path/to/python [--seconds 5] [--connections 200]

`--peers` is an interpreter with uvicorn, httptools, hypercorn, waitress and granian, as the dependency group `bench`.
Each server runs in one process with the same small application (some 60 microseconds of work, 1 KB), on ASGI behind the
few lines that buffer a body. First `wrk` on 16 connections, kept and then closed after each answer; then, for each kind
of `hostile.py`, `--connections` of that kind alone (8 of those that send a megabyte) while one honest client asks, each
time on a new connection: median and worst wait in ms, resident memory at most, CPU seconds. Only 127.0.0.1 is connected
to; it stops by itself.
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
from jobsight_server.front.wsgi import WsgiBridge
lane = Lane("app", 4) if sys.argv[2] == "threads" else None
bridge = WsgiBridge(tiny.app, lambda method, path, length: lane, lambda method, path: 2**22)
run(Front(bridge, Limits(held_bytes=2**23), 1), listen("127.0.0.1:" + sys.argv[1]))
"""
# What an application on these servers needs at least: the whole body before it runs, in memory, with a limit.
BUFFERED = """
import tiny
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request" or len(body) > 2**22:
            return
        body, more = body + message.get("body", b""), message.get("more_body", False)
    sum(range(4000))
    answer = b"x" * (60_000 if scope["path"] == "/login" else 1000)
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
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
        uvicorn = ["-m", "uvicorn", "buffered:app", "--port", str(port), "--no-access-log", "--log-level", "critical"]
        bind = ["--bind", f"127.0.0.1:{port}", "--log-level", "CRITICAL"]
        granian = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--no-log"]
        found |= {
            "uvicorn, httptools": [peers, *uvicorn, "--http", "httptools"],
            "uvicorn, h11": [peers, *uvicorn, "--http", "h11"],
            "hypercorn": [peers, "-m", "hypercorn", *bind, "buffered:app"],
            "waitress, 4 threads": [peers, "-c", WAITRESS, str(port)],
            "granian": [peers, "-m", "granian", "--interface", "asgi", *granian, "buffered:app"],
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


def beside(port: int, pid: int, kind: str, connections: int, seconds: float) -> dict[str, Any]:
    """What one honest client gets beside ``connections`` of one kind."""
    ready, stop = threading.Event(), threading.Event()
    crowd = threading.Thread(target=hostile.crowd, args=(port, connections, ready, stop, Counter(), (kind,)))
    used, most = query.cpu_seconds(pid), 0
    crowd.start()
    try:
        ready.wait(60)
        until, times = time.monotonic() + seconds, []
        while time.monotonic() < until:
            times.append(ask(port))
            most = max(most, hostile.resident_bytes(pid))
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
        "resident_bytes": most,
        "cpu_s": query.cpu_seconds(pid) - used,
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
            for kind in args.kinds:
                found[kind] = beside(port, process.pid, kind, connections_of(kind, args.connections), args.seconds)
            found["resident_bytes"] = hostile.resident_bytes(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    return found


def connections_of(kind: str, connections: int) -> int:
    """Fewer of those that send a megabyte: the client would be the slowest."""
    return min(connections, 8) if len(hostile.REQUESTS[kind]) > 100_000 else connections


def cell(row: dict[str, Any]) -> str:
    if row["answered"] == row["asked"]:
        text = f"{row['median_ms']:.1f} / {row['worst_ms']:.0f}"
    else:
        text = f"**{row['asked'] - row['answered']} of {row['asked']} lost**"
    return f"{text}, {row['resident_bytes'] / 1e6:.0f} MB, {row['cpu_s']:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", default="", help="interpreter with uvicorn, httptools, hypercorn, waitress and granian"
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", default=hostile.ALL_KINDS, choices=hostile.ALL_KINDS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.connections = min(args.connections, hostile.MOST_CONNECTIONS)
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "tiny.py").write_text(APPLICATION)
        (Path(directory) / "buffered.py").write_text(BUFFERED)
        for name in commands(args.peers, 0):
            port = query.free_port()
            results[name] = measure(commands(args.peers, port)[name], port, Path(directory), args)
            print(f"{name}: done", file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps(results))
        return
    print("|  | " + " | ".join(results) + " |\n|" + "---|" * (len(results) + 1))
    load_rows = {
        "CPU per request, kept": lambda row: f"{row['kept']['cpu_us']:.0f} µs",
        "CPU per request, closed each time": lambda row: f"{row['closed']['cpu_us']:.0f} µs",
        "requests/s, kept": lambda row: f"{row['kept']['per_s']:,.0f}",
    }
    for name, figure in load_rows.items():
        print(f"| {name} | " + " | ".join(figure(row) for row in results.values()) + " |")
    for kind in args.kinds:
        print(f"| {kind} | " + " | ".join(cell(row[kind]) for row in results.values()) + " |")


if __name__ == "__main__":
    main()
