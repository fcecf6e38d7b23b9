"""The API and the pages on a Unix socket: made, replaced, refused, shared by workers, removed."""

from __future__ import annotations

import grp
import os
import re
import socket
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from tests import make

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
        (query,) = (one for one in psutil.Process(site.process.pid).children() if "query" in one.cmdline())
        query.kill()
        wait_until(lambda: path.stat().st_ino != inode and _answers(path), 60, lambda: "no new query role answers")
        site.kill()
        assert path.exists(), "a killed server leaves it"
    with site.serve():
        assert status(path, "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n") == 200
    assert not path.exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("unix:{path}", "there is a file that is no socket"),
        ("unix:http.sock", "write unix: and an absolute path"),
        ("unix:{path}/none/http.sock", "choose others with --listen"),
        ("unix:{path}{path}{path}{path}", "choose others with --listen"),
    ],
)
def test_what_is_no_place_for_a_socket_is_refused(site: Site, path: Path, address: str, message: str) -> None:
    path.write_text("kept")
    done = serve(site, "--listen", address.format(path=path))
    assert done.returncode == 1
    assert message in done.stderr
    assert path.read_text() == "kept"


def _config(directory: Path, proxies: Sequence[str], access: str = "") -> str:
    file = directory / "access.toml"
    file.write_text(f'trusted_proxies = {list(proxies)}\n[access]\nlogin_header = "X-Remote-User"\n{access}')
    return str(file)


@pytest.mark.parametrize("proxy", ["127.0.0.0/8", "::1"])
def test_no_server_starts_where_a_local_account_could_name_a_user(site: Site, path: Path, proxy: str) -> None:
    done = serve(site, "--config", _config(site.directory, ["203.0.113.9", proxy]), "--listen", free_address())
    assert (done.returncode, path.exists()) == (1, False)
    assert re.search(rf"trusted_proxies {proxy}: every account of this host", done.stderr)
    assert "no_local_users" in done.stderr
    assert "Traceback" not in done.stderr


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
