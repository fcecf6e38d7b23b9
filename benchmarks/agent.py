"""The agent's cost on a node: CPU seconds and memory, beside a bare psutil loop and prometheus-node-exporter.

    python benchmarks/agent.py [--seconds 300] [--interval 1]

All run at the same time, each in its own process, at the same interval: the agent with a collector's HTTP answers, a
loop that only calls psutil, and the exporter (if Debian's package is installed) scraped at the interval. CPU is user +
system from the kernel, over the whole life and without the first ten seconds. Before that: the cost of one reading, and
with the cgroups of 64 jobs.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import gzip
import http.client
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from filled_server import free_address

import jobsight_agent
from jobsight_agent.counters import NodeReader

WARM_UP_S = 10
PSUTIL_LOOP = """
import sys, time, psutil
while True:
    psutil.net_io_counters(pernic=True, nowrap=False); psutil.virtual_memory(); psutil.cpu_times()
    time.sleep(float(sys.argv[1]))
"""


class Collector(http.server.BaseHTTPRequestHandler):
    """Acknowledges every batch and counts the readings."""

    protocol_version = "HTTP/1.1"
    readings = 0

    def do_POST(self) -> None:
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).readings += len(json.loads(body)["time"])
        answer = b'{"status": "stored"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass


def usage(pid: int) -> tuple[float, float]:
    """Return CPU seconds and resident megabytes of a process."""
    process = psutil.Process(pid)
    return sum(process.cpu_times()[:2]), process.memory_info().rss / 2**20


def print_reading_cost(jobs: int = 64, rounds: int = 500) -> None:
    """Print the CPU microseconds of a reading, and with the cgroups of many jobs, if this user may create them."""
    mount = Path("/sys/fs/cgroup")
    roots = [mount] if (mount / "cgroup.controllers").exists() else [mount / "memory", mount / "cpuacct"]
    parents = [root / f"jobsight-benchmark-{os.getpid()}" for root in roots]
    made: list[Path] = []
    try:
        for parent in parents:
            for folder in (parent, *(parent / str(job) for job in range(jobs))):
                folder.mkdir()
                made.append(folder)
                if folder is parent and roots == [mount]:
                    (folder / "cgroup.subtree_control").write_text("+memory +cpu")
        for pattern, what in (((), "without cgroups"), ((f"{parents[0].name}/{{job}}",), f"with {jobs} jobs")):
            reader = NodeReader(cgroups=pattern)
            reader.read()
            begin = time.process_time()
            for _ in range(rounds):
                found = len(reader.read().jobs)
            spent = (time.process_time() - begin) / rounds * 1e6
            print(f"a reading {what} takes {spent:.0f} us of CPU ({found} read)")
    except OSError as error:
        print(f"no cgroups can be made here: {error}")
    finally:
        for folder in reversed(made):
            folder.rmdir()


def scrape(address: str, interval: float, stop: threading.Event) -> None:
    """Ask the exporter as Prometheus would."""
    while not stop.wait(interval):
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection(address, timeout=5)
            connection.request("GET", "/metrics")
            connection.getresponse().read()
            connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--interval", type=float, default=1)
    args = parser.parse_args()
    print_reading_cost()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        token = Path(directory) / "token"
        token.write_text("bench")
        commands = {
            "jobsight-agent": [
                sys.executable, "-m", "jobsight_agent.cli", "run", "--server",
                f"http://127.0.0.1:{collector.server_port}", "--token-file", str(token), "--interval",
                str(args.interval), "--spool", f"{directory}/spool",
            ],
            "psutil loop": [sys.executable, "-c", PSUTIL_LOOP, str(args.interval)],
        }  # fmt: skip
        if shutil.which("prometheus-node-exporter"):
            address = free_address()
            commands["node-exporter"] = ["prometheus-node-exporter", f"--web.listen-address={address}"]
            threading.Thread(target=scrape, args=(address, args.interval, stop), daemon=True).start()
        # An installed package is compiled; in a checkout, the compiler might be measured.
        package = Path(jobsight_agent.__file__).parent
        shutil.copytree(package, f"{directory}/installed/{package.name}")
        compileall.compile_dir(f"{directory}/installed", quiet=1)
        environment = {**os.environ, "PYTHONPATH": f"{directory}/installed"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes = {name: subprocess.Popen(command, env=environment, **quiet) for name, command in commands.items()}
        try:
            time.sleep(WARM_UP_S)
            for name, process in processes.items():
                if process.poll() is not None:
                    raise SystemExit(f"{name} ended with status {process.returncode}: {' '.join(commands[name])}")
            warm = {name: usage(process.pid) for name, process in processes.items()}
            time.sleep(max(1.0, args.seconds - WARM_UP_S))
            done = {name: usage(process.pid) for name, process in processes.items()}
        finally:
            stop.set()
            for process in processes.values():
                process.terminate()
                process.wait()
    collector.shutdown()
    print(f"{args.seconds:g} s at {args.interval:g} s; the collector got {Collector.readings} readings")
    print(f"{'':<16}{'CPU s':>8}{'% of a core':>13}{'% after start':>15}{'RSS MB':>9}")
    for name in commands:
        total, memory = done[name]
        steady = (total - warm[name][0]) / max(1.0, args.seconds - WARM_UP_S)
        print(f"{name:<16}{total:>8.2f}{total / args.seconds:>13.3%}{steady:>15.3%}{memory:>9.1f}")


if __name__ == "__main__":
    main()
