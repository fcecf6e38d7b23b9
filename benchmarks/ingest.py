"""Samples through HTTP into the database, durable, from separate client processes.

    python benchmarks/ingest.py [--batch 100] [--batches 150] [--agents 1] [--connections 16] [--no-peers]

Each sample has 8 values: bytes in and out of three interfaces, memory and CPU. A batch counts when the server has
acknowledged it, which it does when it is on disk. The same values go as line protocol to InfluxDB and as remote
write to Prometheus, where Debian's packages are installed, in the same run. Prometheus answers before its data has
reached the disk; the other two after.
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
from collections.abc import Callable
from pathlib import Path

from filled_server import cpu_seconds, free_port, wait_for
from remote_write import series, snappy

VALUES_PER_SAMPLE = 8
INTERFACES = 3


def jobsight_batch(node: str, sequence: int, readings: int) -> bytes:
    start = time.time() - 86400 + sequence * readings
    base = 10**12 + sequence * 10**9
    column = [base + 1_234_567 * i for i in range(readings)]
    return json.dumps(
        {
            "format": 1,
            "cluster": "bench",
            "node": node,
            "boot_id": "b",
            "sequence": sequence,
            "sent_at": None,
            "cpus": 16,
            "memory_total_bytes": 2**36,
            "interfaces": [
                {"name": f"eth{k}", "kind": "ethernet", "width_bits": 64, "speed_bps": 10**10}
                for k in range(INTERFACES)
            ],
            "time": [start + i for i in range(readings)],
            "bytes_in": [column] * INTERFACES,
            "bytes_out": [column] * INTERFACES,
            "memory_used_bytes": [2**33 + 4096 * i for i in range(readings)],
            "cpu_busy_s": [round(1000.0 + sequence * readings + i * 0.93, 2) for i in range(readings)],
            "marks": [],
            "agent": {},
        }
    ).encode()


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
    before, began = cpu_seconds(pid), time.perf_counter()
    for process in clients:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [json.loads(process.communicate()[0]) for process in clients]
    seconds = time.perf_counter() - began
    spent = cpu_seconds(pid) - before
    times = sorted(value for result in results for value in result["times"])
    samples = len(times) * args.batch
    return {
        "samples": samples,
        "seconds": seconds,
        "samples_per_s": samples / seconds,
        "values_per_s": samples * VALUES_PER_SAMPLE / seconds,
        "server_cpu_us_per_sample": spent / samples * 1e6,
        "acknowledged_p50_ms": statistics.median(times) * 1e3,
        "acknowledged_p99_ms": times[int(len(times) * 0.99)] * 1e3,
    }


def wait_until_idle(pid: int) -> None:
    """Wait until the server's processes have all started and use a twentieth of a processor at most."""
    for _ in range(60):
        before = cpu_seconds(pid)
        time.sleep(1.0)
        if cpu_seconds(pid) - before <= 0.05:
            return
    raise SystemExit("the server does not become idle")


def bench_jobsight(args: argparse.Namespace, work: Path) -> dict[str, float]:
    database = f"sqlite:///{work / 'bench.db'}"
    token = subprocess.run(
        [sys.executable, "-m", "jobsight_server.cli", "token", "create", "--role", "agent", "--cluster", "bench",
         "--database", database],
        capture_output=True, text=True, check=True,
    ).stdout.split()[-1]  # fmt: skip
    api, ingest = free_port(), free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "jobsight_server.cli", "serve", "--database", database, "--listen",
         f"127.0.0.1:{api}", "--ingest-listen", f"127.0.0.1:{ingest}", "--clusters", "bench"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(ingest)
        headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}
        figures = load("jobsight", ingest, "/api/v1/samples", headers, args, server.pid)
    finally:
        server.terminate()
        server.wait()
    connection = sqlite3.connect(work / "bench.db")
    stored = connection.execute("SELECT sum(samples) FROM readings").fetchone()[0]
    connection.close()
    if stored != figures["samples"]:
        raise SystemExit(f"acknowledged {figures['samples']} samples, the database holds {stored}")
    return figures | {"bytes_per_sample": (work / "bench.db").stat().st_size / stored}


def bench_influx(args: argparse.Namespace, work: Path) -> dict[str, float] | None:
    if shutil.which("influxd") is None:
        return None
    port, rpc = free_port(), free_port()
    config = work / "influx.conf"
    config.write_text(
        f'reporting-disabled = true\nbind-address = "127.0.0.1:{rpc}"\n[meta]\ndir = "{work}/meta"\n[data]\n'
        f'dir = "{work}/data"\nwal-dir = "{work}/wal"\n[http]\nbind-address = "127.0.0.1:{port}"\nlog-enabled = false\n'
    )
    server = subprocess.Popen(["influxd", "-config", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, "/ping")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/query?q=CREATE+DATABASE+bench")
        connection.getresponse().read()
        return load("influx", port, "/write?db=bench&precision=s", {"Content-Encoding": "gzip"}, args, server.pid)
    finally:
        server.terminate()
        server.wait()


def bench_prometheus(args: argparse.Namespace, work: Path) -> dict[str, float] | None:
    (work / "prometheus.yml").write_text("global: {}\n")
    config = ["--config.file={work}/prometheus.yml", "--storage.tsdb.path={work}/tsdb"]
    listen = ["--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver"]
    return bench_remote_write(["prometheus", *config, *listen], "/-/ready", args, work)


def bench_victoria(args: argparse.Namespace, work: Path) -> dict[str, float] | None:
    listen = ["-httpListenAddr=127.0.0.1:{port}", "-storageDataPath={work}/data"]
    return bench_remote_write(["victoria-metrics", *listen], "/health", args, work)


def bench_remote_write(command: list[str], ready: str, args: argparse.Namespace, work: Path) -> dict[str, float] | None:
    if shutil.which(command[0]) is None:
        return None
    port = free_port()
    started = [part.format(port=port, work=work) for part in command]
    server = subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, ready)
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "snappy",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        return load("prometheus", port, "/api/v1/write", headers, args, server.pid)
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=100, help="samples per batch")
    parser.add_argument("--batches", type=int, default=150, help="batches per connection")
    parser.add_argument("--connections", type=int, default=16, help="connections per client process")
    parser.add_argument("--agents", type=int, default=1, help="client processes")
    parser.add_argument("--no-peers", action="store_true")
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
    peers = {"influxdb": bench_influx, "prometheus": bench_prometheus, "victoria-metrics": bench_victoria}
    for name, bench in ({} if args.no_peers else peers).items():
        with tempfile.TemporaryDirectory() as directory:
            figures = bench(args, Path(directory))
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
