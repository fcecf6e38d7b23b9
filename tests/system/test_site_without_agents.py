"""Slurm's log and a real Prometheus, which scrapes an exporter that restarts; no agent anywhere."""

from __future__ import annotations

import math
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests import make

from site_run import free_address, wait_until

pytestmark = pytest.mark.alone

# Long beside what lies between two scrapes, of which one or two may be late on a busy machine.
LIFE_S, OUTAGE_S, SCRAPE_S = 90.0, 1.5, 0.25
CPU, PEAK, RECEIVED_BPS, SENT_BPS = 2.5, 3e9, 4e6, 1e6
COLUMNS = ("JobIDRaw", "User", "State", "Submit", "Start", "End", "AllocCPUS", "NNodes", "NodeList")


class Exporter(ThreadingHTTPServer):
    """What CEEMS exports of one job that begins at ``start``; its counters of traffic begin again with each restart."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.start = self.counted_since = 0.0
        self.is_up = False

    def page(self) -> str:
        now = time.time()
        memory = PEAK if now - self.start > LIFE_S / 2 else PEAK / 3
        values = {
            "ceems_compute_unit_cpu_user_seconds_total": CPU * (now - self.start),
            "ceems_compute_unit_cpu_system_seconds_total": 0.0,
            "ceems_compute_unit_memory_rss_bytes": memory,
            "ceems_ebpf_ingress_bytes_total": RECEIVED_BPS * (now - self.counted_since),
            "ceems_ebpf_egress_bytes_total": SENT_BPS * (now - self.counted_since),
        }
        return "".join(f'{name}{{uuid="4711",hostname="n1"}} {value!r}\n' for name, value in values.items())


class _Handler(BaseHTTPRequestHandler):
    server: Exporter

    def do_GET(self) -> None:
        self.send_response(200 if self.server.is_up else 503)
        self.end_headers()
        if self.server.is_up:
            self.wfile.write(self.server.page().encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with Exporter() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def prometheus(tmp_path: Path, exporter: Exporter) -> Iterator[str]:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine")
    config = tmp_path / "prometheus.yml"
    config.write_text(
        f"""global: {{scrape_interval: {SCRAPE_S * 1000:.0f}ms, scrape_timeout: {SCRAPE_S * 1000:.0f}ms}}
scrape_configs:
- job_name: ceems
  static_configs: [{{targets: ['127.0.0.1:{exporter.server_address[1]}']}}]
"""
    )
    address = free_address()
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path}", f"--web.listen-address={address}"]
    process = subprocess.Popen(["prometheus", *arguments], stderr=subprocess.DEVNULL)
    wait_until(lambda: answers(f"http://{address}/-/ready"), 60, lambda: "Prometheus does not answer")
    yield f"http://{address}"
    process.kill()
    process.wait()


def test_what_a_job_used_is_read_from_prometheus_through_a_restart(
    tmp_path: Path, prometheus: str, exporter: Exporter
) -> None:
    log, settings = tmp_path / "sacct.txt", tmp_path / "jobsight.toml"
    log.write_text("\x1f".join(COLUMNS) + "\n")
    settings.write_text(f"""
follow_interval_s = 0.2
[[accounting]]
cluster = "alpha"
file = "{log}"
format = "slurm"
[[measurements]]
cluster = "alpha"
url = "{prometheus}"
presets = ["ceems"]
delay_s = 2
""")
    (tmp_path / "site").mkdir()
    site = make.site(tmp_path / "site", "--config", str(settings), clusters=())
    with site.serve():
        # Slurm's log has whole seconds.
        exporter.start = exporter.counted_since = float(math.ceil(time.time()))
        wait_until(lambda: time.time() >= exporter.start, 5, lambda: "the clock stands still", pause_s=0.01)
        exporter.is_up = True
        wait_until(lambda: time.time() > exporter.start + LIFE_S / 2, 60, lambda: "the clock stands still")
        exporter.is_up = False
        time.sleep(OUTAGE_S)
        exporter.counted_since, exporter.is_up = time.time(), True
        wait_until(lambda: time.time() > exporter.start + LIFE_S, 60, lambda: "the clock stands still")
        end = exporter.start + LIFE_S
        exporter.is_up = False
        job = ("4711", "ada", "COMPLETED", exporter.start - 9, exporter.start, end, 4, 1, "n1")
        with log.open("a") as file:
            file.write("\x1f".join(str(int(part)) if isinstance(part, float) else str(part) for part in job) + "\n")
        wait_until(lambda: site.settled(1), 60, lambda: site.log.read_text()[-2000:])
        (run,) = site.api("job", name="4711")["runs"]
        found = {row["metric"]: row for row in run["profile"]}
    assert found["cpu"]["value"] == pytest.approx(CPU / 4, rel=0.02)
    assert found["memory"]["value"] == pytest.approx(PEAK / 4, rel=0.02)
    assert found["bandwidth"]["value"] == pytest.approx(RECEIVED_BPS * 8 / 4, rel=0.02)
    assert {found[metric]["attribution"] for metric in ("cpu", "memory", "bandwidth")} == {"cgroup"}
