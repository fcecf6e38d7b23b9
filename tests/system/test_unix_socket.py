"""The API and the pages on a Unix socket: made, replaced, refused, shared by workers, removed."""

from __future__ import annotations

import grp
import os
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import make
from tests.make import not_none
from tests.processes import children, roles

from jobsight_server.cli import main
from jobsight_server.front.addresses import check_addresses, close, listen
from site_run import JOBSIGHT, Site, free_address, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "http.sock"


@pytest.fixture
def site(tmp_path: Path, path: Path) -> Site:
    listen = free_address()
    options = ["--listen", f"{listen} unix:{path}", "--query-workers", "2"]
    return make.site(tmp_path, *options, "--socket-owner", f":{grp.getgrgid(os.getgid()).gr_name}", listen=listen)


def status(path: Path, request: str) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(path))
        client.sendall(request.encode())
        return int(client.recv(4096).split()[1])


def serve(site: Site, *flags: str) -> subprocess.CompletedProcess[str]:
    """A second server beside a running one."""
    host, port = free_address().rsplit(":", 1)
    command = [*JOBSIGHT, "serve", "--database", f"sqlite:///{site.directory / 'second.db'}"]
    command += ["--ingest-listen", f"{host}:{int(port) + 1}", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)


def test_it_is_shared_replaced_after_a_kill_and_removed_at_the_end(site: Site, path: Path) -> None:
    with site.serve():
        assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) == (0o660, os.getgid())
        assert status(path, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n") == 200
        assert status(path, "GET /users HTTP/1.0\r\n\r\n") == 303, "without Host"
        done = serve(site, "--listen", f"unix:{path}")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"unix:{path}: Address already in use" in done.stderr
        assert status(path, "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n") == 200, "the first still has it"
        assert site.process is not None
        inode = path.stat().st_ino
        query = roles(site.process.pid)["query"]
        os.kill(query, signal.SIGKILL)
        wait_until(lambda: path.stat().st_ino != inode and _answers(path), 60, lambda: "no new query role answers")
        site.kill()
        assert path.exists(), "a killed server leaves it"
    with site.serve():
        assert status(path, "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n") == 200
    assert not path.exists()


@pytest.mark.parametrize("kind", ["a port", "a file"])
def test_an_address_that_becomes_free_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    address = free_address() if kind == "a port" else f"unix:{tmp_path}/http.sock"
    held = listen(address, 1)
    with ThreadPoolExecutor(1) as aside:
        checked = aside.submit(check_addresses, address)
        said: list[str] = []

        def waits() -> bool:
            said.append(capsys.readouterr().err)  # it may be read between a line and its end
            return "".join(said) == f"jobsight: {address} is in use; waiting up to 20 s for it\n"

        wait_until(waits, 60, lambda: "no wait", 0.01)
        close(held)
        assert checked.result() is None


@pytest.mark.exhaustive
def test_a_server_waits_for_the_processes_of_a_killed_one(site: Site, path: Path) -> None:
    with site.serve():
        supervisor = not_none(site.process)
        query = roles(supervisor.pid)["query"]
        ending = [query, *children(query)]
        for pid in ending:
            os.kill(pid, signal.SIGSTOP)
        supervisor.kill()
        supervisor.wait()

        def let_them_end() -> None:
            try:
                wait_until(lambda: "is in use; waiting up to 20 s" in site.log.read_text(), 60, lambda: "no wait")
            finally:
                for pid in ending:
                    os.kill(pid, signal.SIGCONT)

        with ThreadPoolExecutor(1) as aside:
            waited = aside.submit(let_them_end)
            with site.serve():
                assert waited.result() is None
                assert status(path, "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n") == 200
    assert "ended with status" not in site.log.read_text()


def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Return why `jobsight serve` does not start with these flags; it makes no database."""
    assert (
        main(["serve", "--database", f"sqlite:///{tmp_path / 'x.db'}", "--ingest-listen", free_address(), *flags]) == 1
    )
    assert not (tmp_path / "x.db").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("unix:{path}", "there is a file that is no socket"),
        ("unix:http.sock", "write unix: and an absolute path"),
        ("unix:{path}/none/http.sock", "choose others with --listen"),
        ("unix:/{x}", "unix:/{x}: the path of a Unix socket has at most 107 bytes, this one 108; choose a shorter one"),
        ("unix:/ü{x}", "at most 107 bytes, this one 110; choose a shorter one"),
    ],
)
def test_what_is_no_place_for_a_socket_is_refused(
    tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str], address: str, message: str
) -> None:
    path.write_text("kept")
    x = "x" * 107
    assert message.format(x=x) in refusal(tmp_path, capsys, "--listen", address.format(path=path, x=x))
    assert path.read_text() == "kept"


def test_a_path_of_107_bytes_is_a_place_for_a_socket(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/".ljust(107 + len("unix:"), "x")
    check_addresses(address)
    close(listen(address, 1))


@pytest.mark.parametrize("owner", ["no-such-user", ":no-such-group", "root:no-such-group", "0:0"])
def test_an_unknown_owner_is_refused(
    tmp_path: Path, path: Path, capsys: pytest.CaptureFixture[str], owner: str
) -> None:
    said = refusal(tmp_path, capsys, "--listen", f"unix:{path}", "--socket-owner", owner)
    assert f"socket_owner = '{owner}': this host has no such user or group; write USER, USER:GROUP or :GROUP" in said


def test_the_socket_of_munged_has_a_path_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(tmp_path, capsys, "--munge-socket", "/" + "x" * 107)
    assert re.search("--munge-socket: munge_socket = '/x+': the path of a Unix socket has at most 107 bytes", said)


def _config(directory: Path, proxies: Sequence[str], access: str = "") -> str:
    file = directory / "access.toml"
    file.write_text(f'trusted_proxies = {list(proxies)}\n[access]\nlogin_header = "X-Remote-User"\n{access}')
    return str(file)


@pytest.mark.parametrize("proxy", ["127.0.0.0/8", "::1"])
def test_no_server_starts_where_a_local_account_could_name_a_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], proxy: str
) -> None:
    said = refusal(tmp_path, capsys, "--config", _config(tmp_path, ["203.0.113.9", proxy]))
    assert re.search(rf"trusted_proxies {proxy}: every account of this host", said)
    assert "no_local_users" in said


@pytest.mark.exhaustive
def test_a_host_without_other_users_may_trust_its_loopback(tmp_path: Path) -> None:
    config = _config(tmp_path, ["127.0.0.1"], "no_local_users = true\n")
    site = make.site(tmp_path, "--config", config)
    with site.serve():
        assert "ready; API and pages on http://127" in site.log.read_text()


def _answers(path: Path) -> bool:
    try:
        return status(path, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n") == 200
    except OSError:
        return False
