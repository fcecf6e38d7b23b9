"""A real Prometheus or VictoriaMetrics with hours of history, written at once."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

Point = tuple[float, float]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class History:
    """Series in the text format of exporters, with the times at which they were scraped."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, series: str, points: Iterable[Point]) -> None:
        """``series`` as exporters write it: ``name{label="value"}``."""
        of_name = self._lines.setdefault(series.partition("{")[0], [])
        of_name += [f"{series} {value!r} {time:.3f}" for time, value in points]

    def open_metrics(self) -> str:
        """In seconds, all series of a metric together."""
        return "\n".join([*(line for lines in self._lines.values() for line in lines), "# EOF\n"])

    def prometheus_text(self) -> str:
        """The older format, in milliseconds."""
        parts = (line.rsplit(" ", 1) for lines in self._lines.values() for line in lines)
        return "".join(f"{start} {float(at) * 1000:.0f}\n" for start, at in parts)


@contextlib.contextmanager
def prometheus(folder: Path, history: History) -> Iterator[str]:
    """The address of a Prometheus with this history."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine")
    text = folder / "history.txt"
    text.write_text(history.open_metrics())
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(make, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("")
    port = _free_port()
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with _running(["prometheus", *arguments], f"http://127.0.0.1:{port}", "/-/ready") as url:
        yield url


@contextlib.contextmanager
def victoria_metrics(folder: Path, history: History) -> Iterator[str]:
    """The address of a VictoriaMetrics with this history."""
    if shutil.which("victoria-metrics") is None:
        pytest.skip("no victoria-metrics on this machine")
    port = _free_port()
    arguments = [f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s"]
    with _running(["victoria-metrics", *arguments], f"http://127.0.0.1:{port}", "/health") as url:
        body = history.prometheus_text().encode()
        urlopen(Request(f"{url}/api/v1/import/prometheus", body)).close()
        urlopen(f"{url}/internal/force_flush").close()
        yield url


@contextlib.contextmanager
def _running(command: list[str], url: str, ready: str) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30.0
        while True:
            try:
                urlopen(url + ready, timeout=5.0).close()
                break
            except (URLError, OSError):
                assert process.poll() is None, f"{command[0]} ended"
                assert time.monotonic() < deadline, f"{command[0]} does not answer"
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()
