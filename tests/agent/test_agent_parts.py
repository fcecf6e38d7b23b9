"""The agent's parts where a whole process would hide the case: batches, hooks' files, the sender's answers."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.collector import Request, collecting, wait_for

from jobsight_agent.agent import Agent
from jobsight_agent.batch import in_batches
from jobsight_agent.config import Config, load_config
from jobsight_agent.control import ask
from jobsight_agent.hooks import MarkFiles, collect, leave, mark_request
from jobsight_agent.log import Log
from jobsight_agent.push import Pusher
from jobsight_agent.reading import Interface, Mark, Reading
from jobsight_agent.send import Reply, Sender, Target, TargetError
from jobsight_agent.spool import Spool

PORT = Interface("eth0", "ethernet", 64, 10**9)
READING = Reading(100.0, "boot", 4, 2**30, (PORT,), (5,), (6,), 2**20, 1.5)
MARKED = replace(READING, mark=Mark("1.s", "start"))


def at(time: float, reading: Reading = READING) -> Reading:
    return replace(reading, time=time)


def times(groups: list[list[Reading]]) -> list[list[float]]:
    return [[reading.time for reading in group] for group in groups]


def test_another_boot_or_other_interfaces_make_a_batch_of_their_own() -> None:
    other_boot = replace(MARKED, boot_id="earlier")
    other_card = replace(READING, interfaces=(replace(PORT, speed_bps=None),))
    readings = [at(1), at(0.5, other_boot), at(2), at(3, other_card)]
    assert times(in_batches(readings)) == [[1, 2], [0.5], [3]]


def test_a_card_that_goes_and_comes_back_is_seen_to_be_away() -> None:
    away = replace(READING, interfaces=(), bytes_in=(), bytes_out=())
    readings = [at(1), at(1.5, MARKED), at(2), at(3, away), at(2.5, MARKED), at(4, away), at(5), at(6)]
    assert times(in_batches(readings)) == [[1, 1.5, 2], [3, 4], [2.5], [5, 6]]


def test_a_clock_set_back_starts_a_batch_so_that_counters_do_not_mix() -> None:
    assert times(in_batches([at(10), at(11), at(9), at(10), at(11)])) == [[10, 11], [9, 10, 11]]


def test_no_batch_is_larger_than_the_server_takes() -> None:
    sizes = [len(group) for group in in_batches([at(i, MARKED) for i in range(2500)])]
    assert sum(sizes) == 2500
    assert max(sizes) <= 2000


def make_config(directory: Path, port: int = 9) -> Config:
    (directory / "token").write_text("secret")
    flags = {
        "server": f"http://127.0.0.1:{port}", "token_file": str(directory / "token"),
        "spool": str(directory / "spool"), "interval": 0.1, "batch_age_s": 1000.0, "node": "n1",
    }  # fmt: skip
    return load_config(None, flags)


class Still:
    """A node on which nothing happens but time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def read(self, mark: Mark | None = None) -> Reading:
        self.now += 1.0
        return replace(READING, time=self.now, mark=mark)


def spooled(directory: Path) -> Spool:
    return Spool(directory / "spool", 10**6, 10**9, clock=lambda: 5000.0)


def test_a_mark_noted_before_a_kill_is_not_taken_twice(tmp_path: Path) -> None:
    spool = spooled(tmp_path)
    leave(spool.marks, at(999.0, MARKED))
    leave(spool.marks, at(999.5, replace(READING, mark=Mark("2.s", "end"))))
    spool.note(at(999.0, MARKED))
    spool.release()
    bodies: list[int] = []

    agent = Agent(make_config(tmp_path), Still(), clock=lambda: 5000.0)
    agent.run(lambda seconds: bool(bodies.append(1)) or len(bodies) > 2)
    batches = [json.loads(gzip.decompress(f.read_bytes())) for f in sorted((tmp_path / "spool/batches").iterdir())]
    assert [batch["time"] for batch in batches] == [[999.0], [999.5, 1001.0, 1002.0, 1003.0, 1004.0]]
    assert [[mark["job"] for mark in batch["marks"]] for batch in batches] == [["1.s"], ["2.s"]]
    assert list((tmp_path / "spool/marks").iterdir()) == []


def test_an_agent_that_is_late_counts_what_it_missed_and_keeps_the_beat(tmp_path: Path) -> None:
    pauses: list[float] = []

    class Slow(Still):
        def read(self, mark: Mark | None = None) -> Reading:
            if len(pauses) == 1:
                time.sleep(0.35)
            return super().read(mark)

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        time.sleep(seconds)
        return len(pauses) == 3

    Agent(make_config(tmp_path), Slow(), clock=lambda: 5000.0).run(wait)
    (file,) = (tmp_path / "spool/batches").iterdir()
    cost = json.loads(gzip.decompress(file.read_bytes()))["agent"]
    assert cost["readings_missed"] >= 3
    assert all(0 <= pause <= 0.1 for pause in pauses)


def test_hooks_and_the_loop_share_the_reader_and_the_batch(tmp_path: Path) -> None:
    """A thousand marks from eight threads, while the loop reads and closes batches: each is there once."""
    config = replace(make_config(tmp_path), batch=50)
    agent = Agent(config, Still(), clock=lambda: 5000.0)
    spool = tmp_path / "spool"

    def hook(thread: int) -> None:
        for number in range(125):
            assert ask(spool, mark_request(Mark(f"{thread}-{number}", "start"))) == "ok"

    threads = [threading.Thread(target=hook, args=(number,)) for number in range(8)]

    def wait(seconds: float) -> bool:
        for thread in threads:
            if thread.ident is None:
                thread.start()
        time.sleep(0.005)
        return not any(thread.is_alive() for thread in threads)

    agent.run(wait)
    batches = [json.loads(gzip.decompress(f.read_bytes())) for f in (spool / "batches").iterdir()]
    marked = [mark["job"] for batch in batches for mark in batch["marks"]]
    assert sorted(marked) == sorted(f"{thread}-{number}" for thread in range(8) for number in range(125))
    times = [time for batch in batches for time in batch["time"]]
    assert len(set(times)) == len(times) == max(batch["agent"]["readings"] for batch in batches)
    assert not (spool / "agent.socket").exists()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("dance", "no: unknown request 'dance'"),
        ("start", "no: job id ''"),
        ("start x", "no: job id ''"),
        ("end 1.0 1.s", "no: requested"),
        ("resend", "ok 0"),
    ],
)
def test_what_the_agent_is_asked_wrongly_costs_nothing(tmp_path: Path, request_: str, answer: str) -> None:
    answers: list[str] = []

    def wait(seconds: float) -> bool:
        answers.append(ask(tmp_path / "spool", request_))
        return True

    Agent(make_config(tmp_path), Still(), clock=lambda: 5000.0).run(wait)
    assert answers[0].startswith(answer)


def test_a_spool_where_no_socket_can_be_made_is_reported_and_costs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spool" / "agent.socket").mkdir(parents=True)
    Agent(make_config(tmp_path), Still(), clock=lambda: 5000.0).run(lambda seconds: True)
    assert "job hooks leave files instead" in capsys.readouterr().err
    assert len(list((tmp_path / "spool/batches").iterdir())) == 1


def test_a_hook_does_not_follow_a_link_out_of_the_spool(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "marks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="marks"):
        leave(tmp_path / "marks", MARKED)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_hooks_stop_filling_the_disk_when_no_agent_runs(tmp_path: Path) -> None:
    leave(tmp_path, at(1, MARKED))
    leave(tmp_path, at(2, MARKED))
    with pytest.raises(OSError, match="is it running"):
        leave(tmp_path, at(3, MARKED), most_files=2)


def test_files_that_are_not_readings_are_listed_separately(tmp_path: Path) -> None:
    leave(tmp_path, MARKED)
    for name, content in {"a.json": b"{", "b.json": b"[" * 60_000, "c.json": b"\xff", "d.json": b"[1]"}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".half").write_bytes(b"{")
    (tmp_path / "e.json").mkdir()
    found, damaged = collect(tmp_path)
    assert [reading for _, reading in found] == [MARKED]
    assert sorted(file.name for file in damaged) == ["a.json", "b.json", "c.json", "d.json", "e.json"]


def test_half_written_files_of_killed_hooks_are_removed(tmp_path: Path) -> None:
    old, fresh = tmp_path / ".1700000000.000000-12", tmp_path / ".1700000001.000000-13"
    old.write_text("[")
    fresh.write_text("[")
    os.utime(old, (1, 1))
    MarkFiles(tmp_path, tmp_path / "damaged", Log()).forget_unfinished()
    assert list(tmp_path.iterdir()) == [fresh]


@contextlib.contextmanager
def answering(*answers: bytes, context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers each request with the next of ``answers``, raw."""
    waiting, requests = list(answers), []

    def take(request: Request, body: bytes) -> bytes:
        requests.append(body)
        answer = waiting.pop(0)
        request.close_connection = not waiting
        return answer

    with collecting(take, context=context) as port:
        yield port, requests


def response(status: int, body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("secret\n")
    return file


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (response(200, b'{"status": "stored", "samples": 3}'), Reply(200, "stored", None)),
        (response(429, b'{"error": "slow down"}', b"Retry-After: 7"), Reply(429, "slow down", 7.0)),
        (response(503, b"<html>", b"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"), Reply(503, "", None)),
        (response(400, b'{"error": "a\\u001b[31m\\nb"}'), Reply(400, "a [31m b", None)),
        (response(200, b"[" * 60_000), Reply(200, "", None)),
        (response(200, b'["stored"]'), Reply(200, "", None)),
        (response(500, b'{"error": 5}'), Reply(500, "", None)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{", Reply(200, "", None)),  # cut off
    ],
)
def test_what_the_server_says_is_understood(token: Path, raw: bytes, expected: Reply) -> None:
    with answering(raw) as (port, _):
        sender = Sender(Target(f"http://127.0.0.1:{port}", token))
        assert sender.send(b"body") == expected
        sender.close()


@pytest.mark.parametrize("raw", [b"", b"\x00\xff rubbish\r\n\r\n"])
def test_what_is_no_answer_is_an_error(token: Path, raw: bytes) -> None:
    with answering(raw) as (port, _):
        sender = Sender(Target(f"http://127.0.0.1:{port}", token, timeout_s=1.0))
        with pytest.raises(ConnectionError, match="HTTP response"):
            sender.send(b"body")


def test_an_endless_answer_is_not_read_to_its_end(token: Path) -> None:
    long = response(200, b" " * 300_000)
    with answering(long, response(200, b'{"status": "stored"}')) as (port, _):
        sender = Sender(Target(f"http://127.0.0.1:{port}", token))
        assert sender.send(b"body").word == ""
        assert sender.send(b"body").word == "stored"
        sender.close()


def make_pusher(spool: Spool, token: Path, port: int) -> Pusher:
    target = Target(f"http://127.0.0.1:{port}", token, backoff_s=0.05, backoff_most_s=0.1)
    return Pusher(spool, target, threading.Lock(), random.Random(1))


def test_only_an_acknowledgement_of_ours_deletes_a_batch(tmp_path: Path, token: Path) -> None:
    spool = spooled(tmp_path)
    body = b"\x1f\x8b the batch"
    spool.close_batches([body])
    strangers = [response(200, b"<html>log in</html>"), response(302, b""), response(404, b"{}")]
    with answering(*strangers, response(200, b'{"status": "duplicate"}')) as (port, requests):
        pusher = make_pusher(spool, token, port)
        pusher.start()
        wait_for(lambda: spool.waiting == 0)
        pusher.finish(5)
    assert requests == [body] * 4
    assert (pusher.failures, pusher.refused, pusher.last_error) == (3, 0, None)


def test_stopping_tries_once_more_and_leaves_the_rest(tmp_path: Path, token: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        spool = spooled(tmp_path)
        spool.close_batches([b"\x1f\x8b a", b"\x1f\x8b b"])
        pusher = make_pusher(spool, token, closed.getsockname()[1])
        pusher.start()
        wait_for(lambda: pusher.failures > 0)
        start = time.monotonic()
        pusher.finish(60)
        assert time.monotonic() - start < 50  # it would go on for 60 s
    assert spool.waiting == 2


def test_a_slow_server_delays_stopping_no_longer_than_configured(tmp_path: Path, token: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spool = spooled(tmp_path)
        spool.close_batches([b"\x1f\x8b a"])
        pusher = make_pusher(spool, token, silent.getsockname()[1])
        pusher.start()
        start = time.monotonic()
        pusher.finish(0.3)
        assert time.monotonic() - start < 14  # it never answers, and is given up after 15 s
    assert spool.waiting == 1


def test_https_trusts_only_the_configured_certificates(tmp_path: Path, token: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out"]
    command += [str(certificate), "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with answering(response(200, b'{"status": "stored"}'), context=context) as (port, requests):
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(ssl.SSLCertVerificationError):
            Sender(Target(url, token)).send(b"secret body")
        assert requests == []
        sender = Sender(Target(url, token, certificate))
        assert sender.send(b"body").word == "stored"
        sender.close()


@pytest.mark.parametrize("content", ["", "two words", "ü", "a\nb"])
def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(TargetError, match="token file"):
        Sender(Target("http://127.0.0.1:1", file))


def test_one_line_a_minute_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    now = [1000.0]
    log = Log(lambda: now[0])
    said = []
    for second in range(150):
        now[0] = 1000.0 + second
        if log.once_a_minute("spool", f"cannot write at {second}"):
            said.append(second)
        log.once_a_minute("refused", "a batch")
    assert said == [0, 60, 120]
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("jobsight-agent: a batch") == 3
    assert "jobsight-agent: cannot write at 60" in lines
    assert len(lines) == 6
