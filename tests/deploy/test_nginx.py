"""The nginx example: accepted by nginx where it is installed, and in step with the server's settings."""

from __future__ import annotations

import base64
import grp
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import make

from jobsight_server.settings.declared import Settings
from jobsight_server.settings.load import SETTINGS
from site_run import free_address, wait_until

CONF = Path(__file__).parents[2] / "deploy" / "nginx.conf"
LOGIN_CONF = CONF.with_name("nginx-login.conf")
DEFAULTS = {setting.name: setting.default_text for setting in SETTINGS}


def block(header: str) -> str:
    match = re.search(rf"^( *){re.escape(header)} \{{\n(.*?)^\1\}}", CONF.read_text(), re.MULTILINE | re.DOTALL)
    assert match, f"no {header}"
    return match[2]


@pytest.mark.parametrize(
    ("location", "setting"),
    [("location = /api/v1/samples", "ingest_listen"), ("location = /login", "listen"), ("location /", "listen")],
)
def test_each_path_goes_to_its_process(location: str, setting: str) -> None:
    (upstream,) = re.findall(r"proxy_pass http://(\w+);", block(location))
    assert f"server {DEFAULTS[setting]};" in block(f"upstream {upstream}")


def test_a_batch_may_be_as_long_as_for_the_server() -> None:
    """A larger limit would turn the server's 413 into a 502, which the agent answers by sending again."""
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", CONF.read_text())
    assert int(megabytes) * 2**20 == Settings().max_body_bytes


@pytest.fixture
def nginx(tmp_path: Path) -> Callable[[str], list[str]]:
    """The command that runs nginx in the foreground with this text of the example; skips where there is none."""
    program, openssl = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"), shutil.which("openssl")
    if program is None or openssl is None:
        pytest.skip("nginx or openssl is not installed")
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=jobsight.example.org"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], capture_output=True, check=True)

    def command(text: str) -> list[str]:
        site = tmp_path / "site.conf"
        site.write_text(text.replace("/etc/jobsight/tls", str(tmp_path)))
        temporary = " ".join(
            f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        main = tmp_path / "nginx.conf"
        main.write_text(
            f"daemon off; master_process off; pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\n"
            f"http {{ access_log off; {temporary} include {site}; }}\n"
        )
        return [program, "-c", str(main)]

    return command


def test_nginx_accepts_it(nginx: Callable[[str], list[str]]) -> None:
    done = subprocess.run([*nginx(CONF.read_text()), "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class Proxy:
    """The example before a server: the address that nginx listens at, and the text of its settings."""

    host: str
    port: int
    text: str
    trusting: ssl.SSLContext

    @contextmanager
    def running(self, command: list[str]) -> Iterator[None]:
        with subprocess.Popen(command) as process:
            try:
                wait_until(self._answers, 60, lambda: "nginx does not listen")
                yield
            finally:
                process.terminate()

    def _answers(self) -> bool:
        with suppress(OSError):
            socket.create_connection((self.host, self.port), timeout=5).close()
            return True
        return False


def proxy_before(upstream: str, folder: Path) -> Proxy:
    """The example with TLS on a free port and ``upstream`` as the server of pages."""
    with socket.create_server(("127.0.0.1", 0)) as probe:  # another than the writer's, which is next to the first
        host, port = probe.getsockname()
    text = re.sub(r"server \{\n    listen 80;.*?\n\}\n", "", CONF.read_text(), flags=re.DOTALL)
    text = text.replace("    listen [::]:443 ssl;\n", "").replace("listen 443 ssl;", f"listen {host}:{port} ssl;")
    text = re.sub(r"^    server 127.0.0.1:8470;.*\n", upstream, text, flags=re.M)
    assert upstream in text
    trusting = ssl.create_default_context(cafile=folder / "fullchain.pem")
    trusting.check_hostname = False
    return Proxy(host, port, text, trusting)


# Whether this process can connect to the Unix socket, and what the TCP address answers one that claims to be root.
INTRUDER = """
import socket, sys, urllib.error, urllib.request
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    print("connected")
except PermissionError:
    print("no permission")
for path in ("/users", "/api/v1/now"):
    request = urllib.request.Request(sys.argv[2] + path, headers={"X-Remote-User": "root"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            print(answer.url.removeprefix(sys.argv[2]))
    except urllib.error.HTTPError as error:
        print(error.code)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_nginx_names_the_user_that_it_authenticated_and_no_other(
    nginx: Callable[[str], list[str]], tmp_path: Path, open_directory: Path
) -> None:
    """A real nginx with a file of passwords before a real server on a Unix socket, both with the shipped settings.
    Clients claim to be somebody else; another account of the host goes around nginx."""
    shipped, upstream, inside = re.split(r"^# In.* in place of .*\n", LOGIN_CONF.read_text(), flags=re.MULTILINE)
    maps = shipped[shipped.index("\nmap ") :]
    users = tmp_path / "users"
    users.write_text("".join(f"{name}:{{PLAIN}}secret\n" for name in ("ada", "root")))
    inside = inside.replace("/etc/nginx/jobsight.users", str(users))
    listen, path = free_address(), open_directory / "http.sock"
    settings = tmp_path / "access.toml"
    toml = "\n".join(re.findall(r"^#     (.*)$", shipped, re.MULTILINE))
    for here, there in (
        ("127.0.0.1:8470", listen),
        ("/run/jobsight/http.sock", path),
        (":www-data", f":{grp.getgrgid(0).gr_name}"),
    ):
        assert here in toml
        toml = toml.replace(here, str(there))
    settings.write_text(f'{toml}\nadmins = ["root"]\n')
    addresses = " ".join(tomllib.loads(toml)["listen"])  # the helper has a flag, which wins over the file
    flags = ["--config", str(settings), "--listen", addresses]
    site = make.site(tmp_path, *flags, listen=listen)
    proxy = proxy_before(upstream.replace("/run/jobsight/http.sock", str(path)), tmp_path)
    text = proxy.text
    assert f"server unix:{path};" in text
    stripped = '    proxy_set_header X-Remote-User "";\n'
    assert stripped in text

    def get(path: str, user: str | None, *claims: tuple[str, str], token: str | None = None) -> int:
        connection = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=60, context=proxy.trusting)
        connection.putrequest("GET", path)
        if user is not None:
            basic = base64.b64encode(f"{user}:secret".encode()).decode()
            connection.putheader("Authorization", f"Basic {basic}")
        if token is not None:
            connection.putheader("Authorization", f"Bearer {token}")
        for name, value in claims:
            connection.putheader(name, value)
        connection.endheaders()
        status = connection.getresponse().status
        connection.close()
        return status

    admin = site.token("admin")
    spoofed = [
        [("X-Remote-User", "root")],
        [("x-remote-USER", "root")],
        [("X_Remote_User", "root")],
        [("X-Remote-User", "ada"), ("X-Remote-User", "root")],
    ]
    with site.serve():
        intruder = [os.path.realpath(sys.executable), "-I", "-S", "-c", INTRUDER, str(path), f"http://{listen}"]
        other = ["setpriv", "--reuid=64321", "--regid=64321", "--clear-groups", "--", *intruder]
        tried = subprocess.run(other, capture_output=True, text=True, check=True, timeout=90)
        assert tried.stdout.splitlines() == ["no permission", "/login", "401"]
        assert subprocess.run(intruder, capture_output=True, text=True, check=True).stdout.startswith("connected")
        for config, by_login in ((text, False), (maps + text.replace(stripped, inside), True)):
            with proxy.running(nginx(config)):
                anonymous, own = (401, 403) if by_login else (303, 303)
                for claims in spoofed:
                    assert get("/users", None, *claims) == anonymous
                    assert get("/users", "ada", *claims) == own, "ada stays ada"
                    assert get("/api/v1/now", "ada" if by_login else None, *claims) == (403 if by_login else 401)
                assert get("/api/v1/now", None, ("X-Remote-User", "ada"), token=admin) == 200
                assert get("/api/v1/now", None, ("X-Remote-User", "root"), token="wrong") == 401
                if by_login:
                    assert get("/users", "root") == 200
                    assert get("/api/v1/now", "root") == 200
                    assert get("/jobs?user=ada", "ada") == 200
                    assert get("/jobs?user=root", "ada") == 403


def test_tls_only_and_the_origin_kept() -> None:
    text = CONF.read_text()
    assert "cookie_secure = true" in text
    assert re.findall(r"ssl_protocols (.+);", text) == ["TLSv1.2 TLSv1.3"]
    assert "proxy_set_header Host $http_host;" in text
    assert text.count("{") == text.count("}")
    plain = text.partition("listen 80;")[2].partition("listen 443 ssl;")[0]
    assert "return 301 https://" in plain
    assert "proxy_pass" not in plain
