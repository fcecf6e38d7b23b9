"""Hostile clients against both ports of a server on this machine: what do honest clients notice?

    python benchmarks/hostile.py [--attack] [--connections 500] [--seconds 20] [--json]

Starts `jobsight serve` with nothing in front and keeps `--connections` to each port for `--seconds`; once a second,
those that the server ended are opened again. Five kinds take equal parts:

- drip: a byte of a request's header every second
- stall: a whole header and a part of the body, then nothing
- idle: nothing at all
- linger: a request, the answer read, the connection left open
- deaf: sixteen requests at once, no answer read

Beside them honest clients, one request at a time: health and a question on the main port, health and a batch
of readings on the writer's, each on a connection of its own; and questions on one kept connection. Afterwards:
processes, threads and sockets of the server beside those before.

With `--attack`: how long 1,000 questions a second take while the same crowd is at the main port and four more clients
send 2 million lines of trailers once a second each.

Only 127.0.0.1 is ever connected to, numbers and time are bounded, and it stops by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from filled_server import Site, batch, cpu_seconds, family, fill, free_address, wait_until
from prometheus_client.parser import text_string_to_metric_families

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage.engine import open_engine

HOST = "127.0.0.1"
REQUESTS = {
    "drip": b"GET /health HTTP/1.1\r\nHost: x\r\nX-Drip: ",
    "stall": b"POST /api/v1/samples HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"{" * 1000,
    "idle": b"",
    "linger": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "deaf": b"GET /login HTTP/1.1\r\nHost: x\r\n\r\n" * 16,
}
KINDS = tuple(REQUESTS)
ATTACK = b"POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * 2_000_000
ATTACKERS, RATE, ASKERS = 4, 1000, 16


MOST_CONNECTIONS, MOST_SECONDS = 2000, 300.0
TIMEOUT_S = 20.0
SETTLE_S = 30.0
LATE_THREADS = 2 + 33 + 2 * 8
"""Threads that start after the server: of periodic work, and of the pools of the writer and two query processes."""


def crowd(port: int, connections: int, ready: threading.Event, stop: threading.Event, ended: Counter[str]) -> None:
    """Keep hostile connections to ``port`` until ``stop``; count in ``ended`` those that the server ended."""
    missing = [KINDS[number % len(KINDS)] for number in range(connections)]
    until = time.monotonic() + MOST_SECONDS
    silent: dict[socket.socket, str] = {}  # written to once a second, never read
    with selectors.DefaultSelector() as selector:
        while not stop.is_set() and time.monotonic() < until:
            turn = time.monotonic() + 1.0
            opening, missing = missing, []
            for kind in opening:
                connection = connect(port, kind)
                if connection is None:
                    missing.append(kind)
                elif kind in {"drip", "deaf"}:
                    silent[connection] = kind
                else:
                    selector.register(connection, selectors.EVENT_READ, kind)
            ready.set()
            while (left := turn - time.monotonic()) > 0 and not stop.is_set():
                for key, _ in selector.select(min(left, 0.1)):
                    if server_ended(key.fileobj):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
                        missing.append(key.data)
            for connection, kind in list(silent.items()):
                try:
                    connection.send(b"x")
                except BlockingIOError:
                    continue
                except OSError:
                    del silent[connection]
                    connection.close()
                    missing.append(kind)
            ended.update(missing)
        for connection in (*silent, *(key.fileobj for key in selector.get_map().values())):
            connection.close()  # type: ignore[union-attr]


def connect(port: int, kind: str) -> socket.socket | None:
    """Open a connection and send what its kind sends; None if it was not accepted."""
    connection = socket.socket()
    if kind == "deaf":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(5)
    try:
        connection.connect((HOST, port))
        connection.settimeout(0.1)  # a server need not read on after a refusal
        with contextlib.suppress(TimeoutError):
            connection.sendall(REQUESTS[kind])
    except OSError:
        connection.close()
        return None
    connection.setblocking(False)
    return connection


def server_ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(65536)
    except BlockingIOError:
        return False
    except OSError:
        return True


def be_crowd(ports: list[int], connections: int) -> None:
    """Run as a process: report when all connections are open, end with standard input, report those the server
    ended."""
    stop, ended = threading.Event(), [Counter[str]() for _ in ports]
    ready = [threading.Event() for _ in ports]
    threads = [
        threading.Thread(target=crowd, args=(port, connections, open_, stop, count))
        for port, open_, count in zip(ports, ready, ended, strict=True)
    ]
    for thread in threads:
        thread.start()
    for event in ready:
        event.wait()
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps(dict(sum(ended, Counter()))), flush=True)


class Honest:
    """Sends one request after the other and times each; a failure counts as ``TIMEOUT_S``."""

    def __init__(self, site: Site) -> None:
        self.times: dict[str, list[float]] = {}
        self.failures: Counter[str] = Counter()
        self._main, self._writer = (int(url.rpartition(":")[2]) for url in (site.url, site.ingest_url))
        self._agent = {"Authorization": f"Bearer {site.agent_token_file.read_text()}"}
        self._asker = {"Authorization": f"Bearer {site.token('scheduler')}"}
        self._kept = http.client.HTTPConnection(HOST, self._main, timeout=TIMEOUT_S)
        self._sequence = 0
        self._start = time.time() - 50_000

    def round(self) -> None:
        question = "/api/v1/predictions?cluster=alpha&user=ada&metric=memory"
        self._ask("health, main port", self._main, "GET", "/health", {})
        self._ask("question", self._main, "GET", question, self._asker)
        self._ask("question, kept connection", self._main, "GET", question, self._asker, kept=True)
        self._ask("health, writer", self._writer, "GET", "/health", {})
        self._ask("batch, writer", self._writer, "POST", "/api/v1/samples", self._agent, self._batch())

    def _ask(
        self,
        name: str,
        port: int,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None = None,
        kept: bool = False,
    ) -> None:
        connection = self._kept if kept else http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        began = time.perf_counter()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            good = answer.status == 200
        except (OSError, http.client.HTTPException):
            good = False
        took = time.perf_counter() - began
        if not good:
            self.failures[name] += 1
        self.times.setdefault(name, []).append(took if good else TIMEOUT_S)
        if not kept or not good:
            connection.close()

    def _batch(self) -> bytes:
        self._sequence += 1
        first = self._start + 4 * self._sequence
        columns = {
            "bytes_in": [10 * self._sequence + i for i in range(4)],
            "bytes_out": [0] * 4,
            "memory_used_bytes": [2**30] * 4,
            "cpu_busy_s": [float(self._sequence)] * 4,
        }
        return batch("alpha", "n1", self._sequence, [first + i for i in range(4)], columns)


def holdings(pid: int) -> dict[str, int]:
    """Count processes, threads and sockets of a process and its descendants."""
    found = Counter({"processes": 0, "threads": 0, "sockets": 0})
    for one in family(pid):
        with contextlib.suppress(psutil.Error):  # it has just ended
            found.update(processes=1, threads=one.num_threads(), sockets=len(one.net_connections(kind="all")))
    return dict(found)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants; shared pages count once for each."""
    return sum(one.memory_info().rss for one in family(pid))


def settled(pid: int) -> dict[str, int]:
    """Return the same once all threads have started."""
    last: list[dict[str, int]] = []
    while len(last) < 15 or any(found != last[-1] for found in last[-15:]):
        last.append(holdings(pid))
        time.sleep(0.2)
    return last[-1]


@contextlib.contextmanager
def hostile(ports: list[int], connections: int) -> Iterator[Callable[[], dict[str, int]]]:
    """Run a crowd during the block; call the result to end it and get the connections that the server ended."""
    command = [sys.executable, __file__, "--crowd", *map(str, ports), "--connections", str(connections)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        yield lambda: dict(json.loads(process.communicate(timeout=60)[0]))
    finally:
        process.kill()
        process.wait()


def measure(site: Site, connections: int, seconds: float) -> dict[str, Any]:
    """Measure one run against a serving site."""
    assert site.process is not None
    pid, honest = site.process.pid, Honest(site)
    for _ in range(20):
        honest.round()
    alone, honest.times = honest.times, {}
    before, memory = settled(pid), resident_bytes(pid)
    before["threads"] += LATE_THREADS
    with hostile([int(url.rpartition(":")[2]) for url in (site.url, site.ingest_url)], connections) as end:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            honest.round()
            time.sleep(0.02)
        during, most_memory = holdings(pid), resident_bytes(pid)
        ended = end()
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: all(n <= before[name] for name, n in holdings(pid).items()), SETTLE_S, lambda: "")
    left = holdings(pid)
    return {
        "connections": connections,
        "seconds": seconds,
        "kinds": KINDS,
        "alone": figures(alone),
        "beside": figures(honest.times),
        "failures": dict(honest.failures),
        "ended_by_server": ended,
        "holdings": {"before": before, "during": during, "after": left},
        "resident_bytes": {"before": memory, "during": most_memory, "after": resident_bytes(pid)},
        "dropped": dropped(site),
    }


def attack(port: int, stop: threading.Event) -> None:
    """Send 8 MB of trailers once a second, on one connection after the other."""
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(ATTACK)
        time.sleep(1.0)


def paced(port: int, token: str, seconds: float) -> dict[str, float]:
    """Send ``RATE`` questions a second from ``ASKERS`` clients on kept connections; each is timed from when it was
    due."""
    waits: list[float] = []
    failed: list[str] = []
    begin = time.perf_counter() + 0.2

    def ask_on(number: int) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        for turn in range(int(seconds * RATE / ASKERS)):
            due = begin + (turn * ASKERS + number) / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            try:
                connection.request(
                    "GET", "/api/v1/predictions?cluster=alpha&user=user0001&metric=memory", headers=headers
                )
                answer = connection.getresponse()
                if answer.status != 200 or not answer.read():
                    failed.append(str(answer.status))
            except (OSError, http.client.HTTPException) as error:
                failed.append(repr(error))
                connection.close()
            waits.append(time.perf_counter() - due)

    threads = [threading.Thread(target=ask_on, args=(number,)) for number in range(ASKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waits.sort()
    return {
        "questions": len(waits),
        "failed": len(failed),
        "within_100_ms": sum(wait <= 0.1 for wait in waits) / len(waits),
        "p50_ms": waits[len(waits) // 2] * 1e3,
        "p99_ms": waits[len(waits) * 99 // 100] * 1e3,
        "worst_ms": waits[-1] * 1e3,
    }


def under_attack(site: Site, connections: int, seconds: float) -> dict[str, Any]:
    """Measure questions alone, and beside slow connections and four clients that send trailers."""
    assert site.process is not None
    pid, port, token = site.process.pid, int(site.url.rpartition(":")[2]), site.token("scheduler")
    found: dict[str, Any] = {"seconds": seconds, "connections": connections, "load_average": os.getloadavg()[0]}
    paced(port, token, 1.0)
    before, used = resident_bytes(pid), cpu_seconds(pid)
    found["alone"] = paced(port, token, seconds) | {"server_cpu_s": cpu_seconds(pid) - used}
    with hostile([port], connections) as end:
        command = [sys.executable, __file__, "--attack-on", str(port)]
        attackers = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(ATTACKERS)]
        time.sleep(3.0)  # wait until the pages for the deaf are made
        used = cpu_seconds(pid)
        try:
            found["beside"] = paced(port, token, seconds) | {"server_cpu_s": cpu_seconds(pid) - used}
            most = resident_bytes(pid)
        finally:
            for one in attackers:
                one.communicate()
        found["ended_by_server"] = end()
    found["resident_bytes"] = {"before": before, "during": most, "after": resident_bytes(pid)}
    return found


def figures(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {"n": len(found), "median_ms": statistics.median(found) * 1e3, "worst_ms": max(found) * 1e3}
        for name, found in times.items()
    }


def dropped(site: Site) -> dict[str, int]:
    """Return the server's own count, once it is stored."""
    time.sleep(11)
    samples = (sample for family in text_string_to_metric_families(site.metrics()) for sample in family.samples)
    return {
        f"{sample.labels['role']}: {sample.labels['reason']}": int(sample.value)
        for sample in samples
        if sample.name == "jobsight_connections_dropped_total"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=500, help=f"to each port, at most {MOST_CONNECTIONS}")
    parser.add_argument("--seconds", type=float, default=20.0, help=f"at most {MOST_SECONDS:g}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--attack", action="store_true", help="slow connections and trailers, and 1,000 questions/s")
    parser.add_argument("--attack-on", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--crowd", type=int, nargs="+", metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    connections, seconds = min(args.connections, MOST_CONNECTIONS), min(args.seconds, MOST_SECONDS)
    if args.crowd:
        be_crowd(args.crowd, connections)
        return
    if args.attack_on:
        stop = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
        attack(args.attack_on, stop)
        return
    with tempfile.TemporaryDirectory() as directory:
        settings = ("--follow-interval-s", "1")
        site = Site(Path(directory) / "site", ["alpha"], free_address(), settings)
        if args.attack:
            engine = open_engine(site.database)
            with engine.begin() as connection:
                fill(connection, users=20, jobs=20)
            rebuild(engine)
            engine.dispose()
        with site.serve():
            if args.attack:
                found = under_attack(site, connections, seconds)
            else:
                found = measure(site, connections, seconds)
    print(json.dumps(found) if args.json or args.attack else as_text(found))


def as_text(found: dict[str, Any]) -> str:
    lines = [f"{found['connections']} connections a port for {found['seconds']:g} s: {', '.join(found['kinds'])}", ""]
    lines.append(f"{'ms':<28}{'alone: median':>14}{'worst':>9}{'beside: median':>16}{'worst':>9}{'n':>7}")
    for name, beside in found["beside"].items():
        alone = found["alone"][name]
        lines.append(
            f"{name:<28}{alone['median_ms']:>14.1f}{alone['worst_ms']:>9.1f}"
            f"{beside['median_ms']:>16.1f}{beside['worst_ms']:>9.1f}{beside['n']:>7}"
        )
    lines += ["", f"failures: {found['failures'] or 'none'}", f"ended by the server: {found['ended_by_server']}"]
    lines += [f"the server counted: {found['dropped']}", f"held: {found['holdings']}"]
    lines.append("resident MB: " + str({name: round(value / 1e6) for name, value in found["resident_bytes"].items()}))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
