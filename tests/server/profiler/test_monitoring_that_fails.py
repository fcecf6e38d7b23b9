"""Monitoring that does not answer, or answers nonsense or too much: jobs wait for it, but not for ever."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests import make

from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.measurements import prometheus as client
from jobsight_server.profiler.site_monitoring import PATIENCE_S, SiteMonitoring
from jobsight_server.settings.measurements import MeasurementSource

START, END = 10_000.0, 20_000.0
EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


class Monitoring(ThreadingHTTPServer):
    """Answers ``status`` and ``body`` after ``delay_s``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.delay_s = 200, EMPTY, 0.0
        self.asked: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Monitoring

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        self.server.asked.append({**asked, **{name.lower(): value for name, value in self.headers.items()}})
        time.sleep(self.server.delay_s)
        self.send_response(self.server.status)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # it did not wait
            self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def monitoring() -> Iterator[Monitoring]:
    with Monitoring() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Profiler:
    """A site with one ended job, whose clock is set by hand."""

    def __init__(self, site: Any, **source: Any) -> None:
        self.site, self.now = site, END + 120.0
        self.monitoring = SiteMonitoring([MeasurementSource(cluster="alpha", **source)], lambda: self.now)
        self.run = site.run("1", START, END, {"n1": 2}, used_cpu_s=5000.0)

    def go(self) -> int:
        return profile_finished(self.site.engine, 600.0, lambda: self.now, LearningOptions(monitoring=self.monitoring))

    def counts(self) -> dict[tuple[str, str], int]:
        return make.counts(self.site.engine)


def test_a_job_is_asked_for_when_its_last_readings_have_been_scraped(sqlite_site: Any, monitoring: Monitoring) -> None:
    profiler = Profiler(sqlite_site, url=monitoring.url, presets=("cgroup_exporter",), delay_s=90.0)
    profiler.now = END + 60.0
    assert (profiler.go(), monitoring.asked) == (0, [])
    profiler.now += 30.0
    assert profiler.go() == 1
    assert {asked["time"] for asked in monitoring.asked} == {"20000.000"}
    assert profiler.site.profile(profiler.run)["cpu"].source == "accounting"  # it knew nothing of the job


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"Service Unavailable"),
        (401, b'{"status":"error","error":"who are you"}'),
        (404, b"<html>"),
        (200, b"<html>not Prometheus</html>"),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}'),
        (200, b'{"status":"success"}'),
        (200, EMPTY[:-1]),
    ],
)
def test_jobs_wait_while_it_does_not_answer(
    sqlite_site: Any, monitoring: Monitoring, status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    profiler = Profiler(sqlite_site, url=monitoring.url, presets=("cgroup_exporter",))
    monitoring.status, monitoring.body = status, body
    assert [profiler.go() for _ in range(3)] == [0, 0, 0]
    assert len(monitoring.asked) == 1  # it is left alone for a minute
    (said,) = caplog.messages
    assert said.startswith(f"measurements of alpha: {monitoring.url}")
    monitoring.status, monitoring.body = 200, EMPTY
    profiler.now += 61.0
    assert profiler.go() == 1
    assert not any("measurements" in name for name, _ in profiler.counts())


def test_jobs_do_not_wait_for_ever(sqlite_site: Any) -> None:
    profiler = Profiler(sqlite_site, url="http://127.0.0.1:9", presets=("cgroup_exporter",))
    profiler.now = END + PATIENCE_S - 1.0
    assert profiler.go() == 0
    profiler.now = END + PATIENCE_S
    assert profiler.go() == 1
    assert profiler.site.profile(profiler.run)["cpu"].value == 0.25
    assert profiler.counts()["measurements_missed", ""] == 1


def test_a_slow_one_and_one_that_says_too_much(
    sqlite_site: Any, monitoring: Monitoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = Profiler(sqlite_site, url=monitoring.url, presets=("cgroup_exporter",), timeout_s=0.2)
    monitoring.delay_s = 1.0
    assert profiler.go() == 0
    monitoring.delay_s, monitoring.body = 0.0, EMPTY + b" " * 2000
    monkeypatch.setattr(client, "_MOST_BYTES", 1000)
    profiler.now += 61.0
    assert profiler.go() == 1
    assert profiler.counts()["measurements_refused", "alpha: cpu_s"] == 1


def test_headers_and_a_token_that_is_read_each_time(sqlite_site: Any, monitoring: Monitoring, tmp_path: Any) -> None:
    token = tmp_path / "token"
    source = {"presets": ("node_exporter",), "headers": {"X-Scope-OrgID": "physics"}, "token_file": token}
    profiler = Profiler(sqlite_site, url=f"{monitoring.url}/", **source)
    assert profiler.go() == 0  # there is no such file yet
    token.write_text("secret\n")
    profiler.now += 61.0
    assert profiler.go() == 1
    assert {(asked["authorization"], asked["x-scope-orgid"]) for asked in monitoring.asked} == {
        ("Bearer secret", "physics")
    }


def test_a_long_life_is_asked_for_in_pieces(sqlite_site: Any, monitoring: Monitoring) -> None:
    site = sqlite_site
    site.run("2", START, START + 40 * 3600.0, {"n1": 2})
    source = MeasurementSource(cluster="alpha", url=monitoring.url, queries={"memory_bytes": "x"}, presets=("dcgm",))
    profile_finished(site.engine, 0.0, lambda: 1e6, LearningOptions(monitoring=SiteMonitoring([source], lambda: 1e6)))
    ranges = [asked["query"].rpartition("[")[2] for asked in monitoring.asked if "FB_USED" in asked["query"]]
    assert sorted(ranges) == ["14400s]"] + ["21600s]"] * 6
    (own,) = [asked for asked in monitoring.asked if asked["query"] == "x"]
    assert (own["start"], own["end"], own["step"]) == ("10000.000", "154000.000", "15.000")


def test_a_redirect_does_not_get_the_token(sqlite_site: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with listening() as (elsewhere, reached), listening() as (url, _):
        answers[url] = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}/login\r\nContent-Length: 0\r\n\r\n".encode()
        profiler = Profiler(sqlite_site, url=url, presets=("cgroup_exporter",), token_file=token)
        assert profiler.go() == 0
        assert reached == []
    assert f"it redirects to '{elsewhere}/login'; redirects are not followed" in caplog.text


@pytest.mark.parametrize("part", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"])
def test_one_that_drips_is_left_in_time(sqlite_site: Any, part: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A byte each 20 ms for as long as somebody waits: no single wait is longer than the limit."""
    with listening(drip_s=0.02) as (url, _):
        answers[url] = part
        profiler = Profiler(sqlite_site, url=url, presets=("cgroup_exporter",), timeout_s=0.5)
        assert profiler.go() == 0
    assert "no whole answer within 0.5 s" in caplog.text


def test_what_is_compressed_is_not_unpacked(sqlite_site: Any, caplog: pytest.LogCaptureFixture) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    with listening() as (url, _):
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
        answers[url] = head.encode() + bomb
        profiler = Profiler(sqlite_site, url=url, presets=("cgroup_exporter",))
        assert profiler.go() == 0
    assert "Content-Encoding 'gzip', which was not asked for" in caplog.text


def matrix(*values: tuple[float, str], **more: Any) -> bytes:
    """An answer with one series."""
    series = {"metric": {"instance": "n1:9306"}, "values": values}
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}, **more}).encode()


def test_values_that_are_no_numbers_or_of_other_times_do_not_count(sqlite_site: Any, monitoring: Monitoring) -> None:
    every = [(START + 15.0 * number, "5e9") for number in range(667)]
    nonsense = [(START + 7.0, "NaN"), (START + 8.0, "+Inf"), (START - 500.0, "9e15"), (END + 500.0, "9e15")]
    monitoring.body = matrix(*nonsense, *reversed(every), *every[:3])
    profiler = Profiler(sqlite_site, url=monitoring.url, queries={"memory_bytes": "x"})
    assert profiler.go() == 1
    memory = profiler.site.profile(profiler.run)["memory"]
    assert (memory.value, memory.source) == (2.5e9, "cgroup")


def test_a_value_beyond_all_jobs_is_refused(
    sqlite_site: Any, monitoring: Monitoring, caplog: pytest.LogCaptureFixture
) -> None:
    monitoring.body = matrix((START + 1.0, "1"), (START + 16.0, "1e308"))
    profiler = Profiler(sqlite_site, url=monitoring.url, queries={"memory_bytes": "x"})
    assert profiler.go() == 1
    assert profiler.counts()["measurements_refused", "alpha: memory_bytes"] == 1
    assert "has a value of 1e+308 for a query: x" in caplog.text


def test_old_jobs_are_not_given_up_where_the_server_is_to_stop(sqlite_site: Any, monitoring: Monitoring) -> None:
    profiler = Profiler(sqlite_site, url=monitoring.url, presets=("cgroup_exporter",))
    profiler.now = END + 2 * PATIENCE_S
    stop = threading.Event()
    stop.set()
    profile_finished(
        profiler.site.engine, 600.0, lambda: profiler.now, LearningOptions(stop=stop, monitoring=profiler.monitoring)
    )
    assert profiler.site.profile(profiler.run) == {}
    assert profiler.go() == 1
    assert monitoring.asked


answers: dict[str, bytes] = {}
"""What is sent on each connection to an address of ``listening``."""


@contextlib.contextmanager
def listening(drip_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """An address that answers every connection with these bytes and, with ``drip_s``, drips; and the bytes that it
    received."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url, received = f"http://127.0.0.1:{server.getsockname()[1]}", list[bytes]()

        def serve() -> None:
            with contextlib.suppress(OSError):  # until it is closed
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        received.append(_request(connection))
                        connection.sendall(answers[url])
                        while drip_s:
                            time.sleep(drip_s)
                            connection.sendall(b"x")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield url, received
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def _request(connection: socket.socket) -> bytes:
    """Head and body; a connection that is closed with something unread is reset."""
    request = b""
    while piece := connection.recv(100_000):
        request += piece
        head, _, body = request.partition(b"\r\n\r\n")
        if len(body) >= int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 1_000_000):
            break
    return request
