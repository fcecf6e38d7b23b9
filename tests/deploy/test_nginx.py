"""The nginx example: accepted by nginx where it is installed, and in step with the server's settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobsight_server.auth.login_rate import ALLOWED, WINDOW_S
from jobsight_server.settings import SETTINGS

CONF = Path(__file__).parents[2] / "deploy" / "nginx.conf"
DEFAULTS = {setting.name: setting.default for setting in SETTINGS}


def block(header: str) -> str:
    match = re.search(rf"^( *){re.escape(header)} \{{\n(.*?)^\1\}}", CONF.read_text(), re.MULTILINE | re.DOTALL)
    assert match, f"no {header}"
    return match[2]


@pytest.mark.parametrize(
    ("location", "setting"),
    [
        ("location = /api/v1/samples", "ingest_listen"),
        ("location = /login", "listen"),
        ("location = /simulations", "listen"),
        ("location /", "listen"),
    ],
)
def test_each_path_goes_to_its_process(location: str, setting: str) -> None:
    (upstream,) = re.findall(r"proxy_pass http://(\w+);", block(location))
    assert f"server {DEFAULTS[setting]};" in block(f"upstream {upstream}")


def test_a_batch_may_be_as_long_as_for_the_server() -> None:
    """A larger limit would turn the server's 413 into a 502, which the agent answers by sending again."""
    (megabytes, of_traces) = re.findall(r"client_max_body_size (\d+)m;", CONF.read_text())
    assert int(megabytes) * 2**20 == DEFAULTS["max_body_bytes"]
    assert f"client_max_body_size {of_traces}m;" in block("location = /simulations")
    assert (int(of_traces) - 1) * 2**20 == DEFAULTS["simulation_trace_bytes"]


def test_one_guesser_cannot_lock_out_everybody() -> None:
    """Behind the proxy all logins count as one address, which is locked after ALLOWED failures in WINDOW_S."""
    (per_minute,) = re.findall(r"rate=(\d+)r/m", CONF.read_text())
    (burst,) = re.findall(r"burst=(\d+)", block("location = /login"))
    assert int(per_minute) * WINDOW_S / 60 + int(burst) < ALLOWED


def test_tls_only_and_the_origin_kept() -> None:
    text = CONF.read_text()
    assert "cookie_secure = true" in text
    assert re.findall(r"ssl_protocols (.+);", text) == ["TLSv1.2 TLSv1.3"]
    assert "proxy_set_header Host $http_host;" in text
    assert text.count("{") == text.count("}")
    plain = text.partition("listen 80;")[2].partition("listen 443 ssl;")[0]
    assert "return 301 https://" in plain
    assert "proxy_pass" not in plain


def test_nginx_accepts_it(tmp_path: Path) -> None:
    nginx, openssl = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("nginx or openssl is not installed")
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=jobsight.example.org"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], capture_output=True, check=True)
    site = tmp_path / "site.conf"
    site.write_text(CONF.read_text().replace("/etc/jobsight/tls", str(tmp_path)))
    temporary = " ".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = tmp_path / "nginx.conf"
    main.write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; {temporary} include {site}; }}\n"
    )
    done = subprocess.run([nginx, "-t", "-c", main], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
