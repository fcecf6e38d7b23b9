"""The resource manager script for Moab and Maui: asked of a real server, and of servers and commands that misbehave."""

from __future__ import annotations

import http.server
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import insert

from jobsight_server.forecasts import rebuild
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.schema import jobs, profiles
from site_run import Site, free_address

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "torque" / "moab-forecasts"
QSTAT = Path(__file__).parent / "torque" / "qstat.xml"
NOW = 1_700_000_000.0


def ask(*options: object, stdin: bytes = b"") -> tuple[list[str], str]:
    """The lines and the complaints; the status is always 0."""
    command = [str(SCRIPT), *map(str, options)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines(), done.stderr.decode()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "scheduler-token"
    file.write_text("secret\n")
    return file


def learn(database: str) -> None:
    """Twenty jobs each of ada (12.4 Mb/s a processor) and bob (0.2), on cluster alpha."""
    engine = open_engine(database)
    position = 0
    with engine.begin() as connection:
        for user, bandwidth_bps in (("ada", 12.4e6), ("bob", 0.2e6)):
            for number in range(20):
                position += 1
                row = {
                    "cluster": "alpha", "job_id": f"{position}.head", "start": NOW + number * 10,
                    "end": NOW + number * 10 + 5, "state": "ended", "user": user, "processors": 4,
                    "recorded_at": NOW, "profiled": True,
                }  # fmt: skip
                run = connection.execute(insert(jobs).values(row).returning(jobs.c.id)).scalar_one()
                value = {"value": bandwidth_bps, "source": "samples", "attribution": "exclusive", "reason": None}
                key = {"run_id": run, "metric": "bandwidth", "learn_seq": position}
                connection.execute(insert(profiles).values(key | value))
    rebuild(engine)
    engine.dispose()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_real_server_forecasts_what_torque_has_queued(tmp_path: Path) -> None:
    site = Site(tmp_path, ("alpha",), free_address())
    learn(site.database)
    file = tmp_path / "scheduler-token"
    file.write_text(site._run("token", "create", "--role", "scheduler").split()[-1] + "\n")
    options = ["--server", site.url, "--cluster", "alpha", "--token-file", file, "--limit", "30"]
    with site.serve():
        lines, errors = ask(*options, "--qstat", f"cat {QSTAT}")
        said = dict(line.split(" ", 1) for line in lines)
        # A running job, one with a constraint of its own and one without a usable id are left alone.
        assert list(said) == [
            "5193500.head.example", "5193501[].head.example", "5193504.head.example", "5193505.head.example",
        ]  # fmt: skip
        counts = {job: int(text.removeprefix('COMMENT="GRES\\:uplink+').rstrip('"')) for job, text in said.items()}
        assert 13 <= counts["5193505.head.example"] <= 20  # 12.4 Mb/s and the margin of its bound, in whole Mb/s
        # A job of which more is said is like none before: its bound has a wider margin.
        assert counts["5193501[].head.example"] < counts["5193500.head.example"] < 100
        assert "0 jobs without a forecast, 2 left as they are" in errors
        together, _ = ask(*options, "--jobs", QSTAT, "--keep-together", "90", "--resource", "net")
        assert together[0].startswith('5193500.head.example COMMENT="GRES\\:net+')
        assert together[0].endswith(';NODESET\\:ONEOF\\:FEATURE"')  # 8 processors
        assert "NODESET" not in together[1]
        qalter, _ = ask(*options, "--jobs", "-", "--format", "qalter", stdin=QSTAT.read_bytes())
        count = counts["5193501[].head.example"]
        assert qalter[1] == f"qalter -W x=GRES:uplink+{count} '5193501[].head.example'"
        refused, errors = ask(*options, "--cluster", "beta", "--jobs", QSTAT)
        assert (refused, "answered 404" in errors) == ([], True)
        file.write_text("wrong")
        refused, errors = ask(*options, "--jobs", QSTAT)
        assert (refused, "answered 401" in errors) == ([], True)
    down, errors = ask(*options, "--jobs", QSTAT)
    assert (down, "Connection refused" in errors) == ([], True)


@contextmanager
def answering(body: bytes, pause_s: float = 0.0, status: int = 200, location: str | None = None) -> Iterator[str]:
    """A server that answers every question with ``body``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            time.sleep(pause_s)
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body) + (5 if pause_s else 0)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "JSONDecodeError"),
        (b"[]", "answered something else than 4 predictions"),
        (b'{"predictions": [{"bound": 1e6}]}', "answered something else than 4 predictions"),
        (b"\xff\xfe", "Error"),
        (
            b'{"predictions": [{"bound": null}, {"bound": "x"}, {"bound": NaN}, {"bound": 1e300}]}',
            "4 jobs without a forecast",
        ),
        (b'{"predictions": [[], {"bound": -1}, {"bound": true}, {}]}', "4 jobs without a forecast"),
    ],
)
def test_strange_answers_add_nothing(token: Path, body: bytes, complaint: str) -> None:
    with answering(body) as server:
        lines, errors = ask("--server", server, "--token-file", token, "--jobs", QSTAT)
    assert lines == []
    assert complaint in errors
    assert "Traceback" not in errors


def test_the_token_is_not_sent_on_after_a_redirect(token: Path) -> None:
    """By itself urllib would, after a 303 with GET, which this other server answers 501."""
    with answering(b"{}") as other, answering(b"", status=303, location=f"{other}/x") as server:
        lines, errors = ask("--server", server, "--token-file", token, "--jobs", QSTAT)
    assert lines == []
    assert f"{server} answered 303" in errors


def test_slow_servers_and_commands_are_not_waited_for(token: Path) -> None:
    begun = time.monotonic()
    with answering(b"{}", pause_s=30.0) as server:
        lines, errors = ask("--server", server, "--token-file", token, "--jobs", QSTAT, "--limit", "0.5")
    assert (lines, "within the limit" in errors or "timed out" in errors) == ([], True)
    lines, errors = ask("--qstat", "sleep 30", "--token-file", token, "--limit", "0.5")
    assert lines == []
    assert "moab-forecasts: " in errors
    assert time.monotonic() - begun < 28.0  # each would take 30 s


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", ""),
        (b"<Data></Data>", ""),
        (b"qstat: cannot connect to server", "printed no XML"),
        (b"<Data><Job>", "printed no XML"),
        (b'<!DOCTYPE x [<!ENTITY a "aaaa">]><Data>&a;</Data>', "a document type"),
        (b"\x00\x01", "printed no XML"),
    ],
)
def test_strange_output_of_qstat_asks_nothing(token: Path, text: bytes, complaint: str) -> None:
    lines, errors = ask("--server", "http://127.0.0.1:9", "--token-file", token, "--jobs", "-", stdin=text)
    assert lines == []
    assert complaint in errors
    assert bool(errors) == bool(complaint)


def test_what_is_missing_is_named(token: Path) -> None:
    for options, complaint in (
        (("--qstat", "false"), "false ended with status 1"),
        (("--qstat", "no-such-command-here"), "No such file or directory: 'no-such-command-here'"),
        (("--jobs", "/no/such/file"), "No such file or directory"),
        (("--jobs", QSTAT, "--token-file", "/no/token"), "No such file or directory: '/no/token'"),
    ):
        lines, errors = ask("--token-file", token, *options)
        assert lines == []
        assert complaint in errors
    for option in (("--limit", "0"), ("--limit", "nan"), ("--keep-together", "-1"), ("--resource", 'a";x')):
        done = subprocess.run([SCRIPT, *option], capture_output=True, check=False)
        assert done.returncode == 2
