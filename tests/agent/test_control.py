"""The agent's socket: what is asked is answered, however many other connections are open, and for no other user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent.collector import wait_for

from jobsight_agent.control import LONGEST_PACKET, NAME, ControlSocket, ask
from jobsight_agent.hooks import checked_request, mark_request
from jobsight_agent.reading import Mark


@contextlib.contextmanager
def listening(folder: Path, answer: Callable[[str], str] = lambda text: f"ok {text}") -> Iterator[ControlSocket]:
    control = ControlSocket(folder, answer)
    control.start()
    try:
        yield control
    finally:
        control.stop()


def connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(60)
    connection.connect(str(folder / NAME))
    return connection


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, so that the tests can use it as an address."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_a_request_is_answered(folder: Path) -> None:
    with listening(folder):
        assert ask(folder, "start 1.0 4711.server") == "ok start 1.0 4711.server"
        assert (folder / NAME).stat().st_mode & 0o777 == 0o600


def test_a_path_longer_than_an_address_can_be(folder: Path) -> None:
    deep = folder / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    with listening(deep):
        assert ask(deep, "a") == "ok a"


def test_a_socket_that_a_killed_agent_left_is_replaced(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(str(folder / NAME))
    with pytest.raises(ConnectionRefusedError):
        ask(folder, "a")
    with listening(folder):
        assert ask(folder, "a") == "ok a"
    assert not (folder / NAME).exists()
    with pytest.raises(FileNotFoundError):
        ask(folder, "a")


def test_idle_connections_delay_no_request_and_are_closed(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with listening(folder) as control:
        idle = [connect(folder) for _ in range(300)]
        assert ask(folder, "a") == "ok a"
        assert control.refused < 300  # its turn came before they had run out of patience
        wait_for(lambda: control.refused == 300)
        for connection in idle:
            assert connection.recv(10) == b""
            connection.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("size", [LONGEST_PACKET + 1, 100_000])
def test_a_huge_request_is_refused(folder: Path, size: int) -> None:
    with listening(folder) as control, connect(folder) as connection:
        connection.send(b"x" * size)
        assert connection.recv(100) == b"no: the request is too long"
        assert control.refused == 1


def test_what_is_no_text_is_refused(folder: Path) -> None:
    with listening(folder), connect(folder) as connection:
        connection.send(b"\xff\xfe")
        assert connection.recv(100) == b"no: the request is not UTF-8"


def test_what_was_asked_before_the_end_is_answered(folder: Path) -> None:
    slow = threading.Event()

    def answer(text: str) -> str:
        slow.wait(60)
        return "ok"

    control = ControlSocket(folder, answer)
    control.start()
    asked = [connect(folder) for _ in range(20)]
    for connection in asked:
        connection.send(b"a")
    stopping = threading.Thread(target=control.stop)
    stopping.start()
    slow.set()
    stopping.join()
    assert [connection.recv(10) for connection in asked] == [b"ok"] * 20
    for connection in asked:
        connection.close()


CLIENT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    connection.connect(sys.argv[1])
    connection.send(b"start 1.0 forged")
    print(connection.recv(100))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
@pytest.mark.parametrize("opened", [False, True], ids=["as it is made", "with its rights opened by mistake"])
def test_another_user_is_not_answered(folder: Path, opened: bool) -> None:
    asked: list[str] = []
    folder.chmod(0o755)
    with listening(folder, lambda text: str(asked.append(text))):
        if opened:
            (folder / NAME).chmod(0o666)
        nobody = pwd.getpwnam("nobody")
        command = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--"]
        command += [os.path.realpath(sys.executable), "-IS", "-c", CLIENT, str(folder / NAME)]
        if not shutil.which("python3", path="/usr/bin"):
            pytest.skip("no Python that another user can run")
        command[5] = "/usr/bin/python3"
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == ""
        if opened:
            assert done.stdout.strip() in {"b''", "ConnectionResetError", "BrokenPipeError"}
        else:
            assert done.stdout.strip() == "PermissionError"
    assert asked == []


@pytest.mark.parametrize("job", ["4711.server", "1[7].head", "a job with spaces", "é"])
def test_a_request_names_its_mark(job: str) -> None:
    event, _, rest = mark_request(Mark(job, "end")).partition(" ")
    assert checked_request(event, rest) == Mark(job, "end")


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("", "give 1 to 255"),
        ("soon 1.s", "could not convert"),
        ("nan 1.s", "ago"),
        ("1.0 " + "x" * 256, "give 1 to 255"),
        ("1.0 a\nb", "printable"),
        ("-1000 1.s", r"requested \d+ s ago"),
    ],
)
def test_a_request_that_cannot_be_followed_says_why(rest: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checked_request("start", rest)
