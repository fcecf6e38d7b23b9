"""Samples through HTTP into the database, durable, from separate client processes.

    python benchmarks/ingest.py [--batch 100] [--batches 150] [--agents 1] [--connections 16]

Each sample has 8 values: bytes in and out of three interfaces, memory and CPU. A batch counts when the server has
acknowledged it, which it does when it is on disk. The same values go as line protocol to InfluxDB and as remote
write to Prometheus, where Debian's packages are installed, in the same run. Prometheus answers before its data has
reached the disk; the other two after.

The rate on a machine of few cores measures the clients too, which share them with the server. CPU time a sample is
that of the processes that serve intake, of Jobsight its writer; beside it stands what the whole server uses while idle.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from filled_server import Site, batch, cpu_seconds, family, free_address, wait_until
from remote_write import series, snappy

VALUES_PER_SAMPLE = 8
INTERFACES = 3
IDLE_S = 10.0


def jobsight_batch(node: str, sequence: int, readings: int) -> bytes:
    start = time.time() - 86400 + sequence * readings
    column = [10**12 + sequence * 10**9 + 1_234_567 * i for i in range(readings)]
    memory = [2**33 + 4096 * i for i in range(readings)]
    busy = [round(1000.0 + sequence * readings + i * 0.93, 2) for i in range(readings)]
    columns = {"bytes_in": column, "bytes_out": column, "memory_used_bytes": memory, "cpu_busy_s": busy}
    return batch("bench", node, sequence, [start + i for i in range(readings)], columns, INTERFACES)


def influx_batch(node: str, sequence: int, readings: int) -> bytes:
    start, base = int(time.time()) - 86400 + sequence * readings, 10**12 + sequence * 10**9
    lines = []
    for i in range(readings):
        value = base + 1_234_567 * i
        network = ",".join(f"in{k}={value}i,out{k}={value}i" for k in range(INTERFACES))
        lines.append(
            f"node,cluster=bench,node={node} {network},memory={2**33 + 4096 * i}i,cpu={i * 0.93:.2f} {start + i}"
        )
    return "\n".join(lines).encode()


def prometheus_batch(node: str, sequence: int, readings: int) -> bytes:
    # Ten readings a second: Prometheus refuses samples an hour older than its newest.
    start = int(time.time() * 1000) - 3_000_000 + sequence * readings * 100
    times = [start + 100 * i for i in range(readings)]
    base = 10**12 + sequence * 10**9
    column = [float(base + 1_234_567 * i) for i in range(readings)]
    names = [f"{way}{k}" for k in range(INTERFACES) for way in ("in", "out")] + ["memory", "cpu"]
    request = b"".join(series({"__name__": name, "cluster": "bench", "node": node}, times, column) for name in names)
    return snappy(request)


def send(
    port: int, path: str, headers: dict[str, str], bodies: list[bytes], result: list[float], good: tuple[int, ...]
) -> None:
    """Send every body on one connection; time each acknowledgement."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for body in bodies:
        began = time.perf_counter()
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status not in good:
            raise SystemExit(f"{path} answered {response.status}: {answer[:300]!r}")
        result.append(time.perf_counter() - began)
    connection.close()


def client(
    port: int,
    path: str,
    headers: dict[str, str],
    make: Callable[[str, int, int], bytes],
    args: argparse.Namespace,
    who: int,
) -> None:
    """Run as a process: prepare batches, wait for a line on standard input, send, print the result."""
    per = args.batches
    packed = headers.get("Content-Encoding") == "gzip"
    prepared = [[make(f"n{who}-{c}", sequence, args.batch) for sequence in range(per)] for c in range(args.connections)]
    if packed:
        prepared = [[gzip.compress(body, 1) for body in bodies] for bodies in prepared]
    print("ready", flush=True)
    sys.stdin.readline()
    times: list[list[float]] = [[] for _ in prepared]
    threads = [
        threading.Thread(target=send, args=(port, path, headers, bodies, result, (200, 204)))
        for bodies, result in zip(prepared, times, strict=True)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flat = [value for part in times for value in part]
    print(json.dumps({"seconds": time.perf_counter() - began, "times": flat}), flush=True)


def load(
    kind: str, port: int, path: str, headers: dict[str, str], args: argparse.Namespace, pid: int
) -> dict[str, float]:
    """Run the client processes against a server; return the figures of all."""
    command = [
        sys.executable, __file__, "--client", kind, "--port", str(port), "--path", path, "--headers",
        json.dumps(headers), "--batch", str(args.batch), "--connections", str(args.connections),
        "--batches", str(args.batches),
    ]  # fmt: skip
    clients = [
        subprocess.Popen([*command, "--who", str(k)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for k in range(args.agents)
    ]
    for process in clients:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
    wait_until_idle(pid)
    idle = cpu_seconds(pid)
    time.sleep(IDLE_S)
    idle = cpu_seconds(pid) - idle
    serving = writer_of(pid) if kind == "jobsight" else pid
    before, began = cpu_seconds(serving), time.perf_counter()
    for process in clients:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [json.loads(process.communicate()[0]) for process in clients]
    seconds = time.perf_counter() - began
    spent = cpu_seconds(serving) - before
    times = sorted(value for result in results for value in result["times"])
    samples = len(times) * args.batch
    return {
        "samples": samples,
        "seconds": seconds,
        "samples_per_s": samples / seconds,
        "values_per_s": samples * VALUES_PER_SAMPLE / seconds,
        "intake_cpu_us_per_sample": spent / samples * 1e6,
        "idle_cpu_percent": 100.0 * idle / IDLE_S,
        "acknowledged_p50_ms": statistics.median(times) * 1e3,
        "acknowledged_p99_ms": times[int(len(times) * 0.99)] * 1e3,
    }


def writer_of(pid: int) -> int:
    """Return the process of the server that takes in samples."""
    return next(one.pid for one in family(pid) if one.name() == "jobsight writer")


def wait_until_idle(pid: int) -> None:
    """Wait until the server's processes have all started and use a twentieth of a processor at most."""
    for _ in range(60):
        before = cpu_seconds(pid)
        time.sleep(1.0)
        if cpu_seconds(pid) - before <= 0.05:
            return
    raise SystemExit("the server does not become idle")


def bench_jobsight(args: argparse.Namespace, work: Path) -> dict[str, float]:
    site = Site(work / "site", ["bench"], free_address())
    headers = {"Authorization": f"Bearer {site.agent_token_file.read_text()}", "Content-Encoding": "gzip"}
    with site.serve():
        assert site.process is not None
        port = int(site.ingest_url.rpartition(":")[2])
        figures = load("jobsight", port, "/api/v1/samples", headers, args, site.process.pid)
    file = site.directory / "jobsight.db"
    connection = sqlite3.connect(file)
    stored = connection.execute("SELECT sum(samples) FROM readings").fetchone()[0]
    connection.close()
    if stored != figures["samples"]:
        raise SystemExit(f"acknowledged {figures['samples']} samples, the database holds {stored}")
    return figures | {"bytes_per_sample": file.stat().st_size / stored}


INFLUX = """
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
dir = "{work}/meta"
[data]
dir = "{work}/data"
wal-dir = "{work}/wal"
[http]
bind-address = "{address}"
log-enabled = false
"""
REMOTE_WRITE = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


class Peer(NamedTuple):
    """A database to compare with: its command and configuration, where it says that it is ready, and how it is sent
    samples."""

    command: tuple[str, ...]
    config: str
    ready: str
    kind: str
    path: str
    headers: dict[str, str]


PEERS = {
    "influxdb": Peer(
        ("influxd", "-config", "{work}/config"), INFLUX, "/query?q=CREATE+DATABASE+bench", "influx",
        "/write?db=bench&precision=s", {"Content-Encoding": "gzip"},
    ),
    "prometheus": Peer(
        ("prometheus", "--config.file={work}/config", "--storage.tsdb.path={work}/tsdb",
         "--web.listen-address={address}", "--web.enable-remote-write-receiver"),
        "global: {{}}", "/-/ready", "prometheus", "/api/v1/write", REMOTE_WRITE,
    ),
    "victoria-metrics": Peer(
        ("victoria-metrics", "-httpListenAddr={address}", "-storageDataPath={work}/data"), "", "/health", "prometheus",
        "/api/v1/write", REMOTE_WRITE,
    ),
}  # fmt: skip


def bench_peer(peer: Peer, args: argparse.Namespace, work: Path) -> dict[str, float] | None:
    if shutil.which(peer.command[0]) is None:
        return None
    address = free_address()
    (work / "config").write_text(peer.config.format(work=work, address=address))
    command = [part.format(work=work, address=address) for part in peer.command]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_ready() -> bool:
        try:
            urllib.request.urlopen(f"http://{address}{peer.ready}", b"" if "CREATE" in peer.ready else None, 5).close()
        except OSError:
            return False
        return True

    try:
        wait_until(is_ready, 60, lambda: f"{peer.command[0]} does not answer {peer.ready}")
        return load(peer.kind, int(address.rpartition(":")[2]), peer.path, peer.headers, args, server.pid)
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=100, help="samples per batch")
    parser.add_argument("--batches", type=int, default=150, help="batches per connection")
    parser.add_argument("--connections", type=int, default=16, help="connections per client process")
    parser.add_argument("--agents", type=int, default=1, help="client processes")
    for hidden in ("--client", "--path", "--headers"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--who", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        makers = {"jobsight": jobsight_batch, "influx": influx_batch, "prometheus": prometheus_batch}
        make = makers[args.client]
        client(args.port, args.path, json.loads(args.headers), make, args, args.who)
        return
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        results["jobsight"] = bench_jobsight(args, Path(directory))
    for name, peer in PEERS.items():
        with tempfile.TemporaryDirectory() as directory:
            figures = bench_peer(peer, args, Path(directory))
        if figures is None:
            print(f"{name} is not installed (Debian: {name})")
        else:
            results[name] = figures
    print(f"{'':<26}" + "".join(f"{name:>18}" for name in results))
    for key in results["jobsight"]:
        row = "".join(f"{figures[key]:>18,.1f}" if key in figures else f"{'':>18}" for figures in results.values())
        print(f"{key:<26}{row}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
