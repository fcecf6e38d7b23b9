"""The parts for Open OnDemand, as far as they can be tried without it: YAML, nginx, and the widget's script in Node."""

from __future__ import annotations

import http.client
import http.server
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.workflow_site import served_workflow

from site_run import wait_until

FOLDER = Path(__file__).parents[2] / "deploy" / "openondemand"
WIDGET = (FOLDER / "widgets" / "_jobsight.html.erb").read_text()


def test_manifest_layout_and_portal_are_what_ondemand_reads() -> None:
    manifest = yaml.safe_load((FOLDER / "app" / "manifest.yml").read_text())
    assert {"name", "category", "description", "icon", "url", "new_window"} == set(manifest)
    assert manifest["url"].endswith("/mine")
    layout = yaml.safe_load((FOLDER / "dashboard.yml").read_text())["dashboard_layout"]
    columns = [column for row in layout["rows"] for column in row["columns"]]
    assert sum(column["width"] for column in columns) == 12
    assert FOLDER.joinpath("widgets", f"_{columns[-1]['widgets'][0]}.html.erb").exists()
    lines = yaml.safe_load((FOLDER / "ood_portal.yml").read_text())["custom_vhost_directives"]
    assert all(isinstance(line, str) for line in lines)
    place = re.findall(r'<Location "(.*)">', "\n".join(lines))
    assert place == ["/jobsight/user-jobs"]
    assert f'fetch("{place[0]}?limit=1&user="' in WIDGET
    assert "  Require valid-user" in lines


def test_every_tag_of_the_widget_is_closed_and_what_is_shown_is_escaped() -> None:
    assert WIDGET.count("<%") == WIDGET.count("%>") == 6
    assert "innerHTML" not in WIDGET


NODE = """
const fs = require("fs");
const [script, answer, status] = [process.argv[2], process.argv[3], Number(process.argv[4])];
let shown = null;
const list = { replaceChildren: (...items) => { shown = items.map((item) => item.textContent); } };
global.document = {
  getElementById: () => ({ dataset: { user: "ada b" }, querySelector: () => list }),
  createElement: () => ({}),
};
global.fetch = (address) => {
  if (address !== "/jobsight/user-jobs?limit=1&user=ada%20b") { throw new Error(address); }
  const json = () => Promise.resolve(JSON.parse(fs.readFileSync(answer)));
  return Promise.resolve({ ok: status < 400, status, json });
};
eval(fs.readFileSync(script, "utf8"));
setTimeout(() => console.log(JSON.stringify(shown)), 50);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_widget_shows_what_a_real_server_answers(tmp_path: Path) -> None:
    found = re.search(r"<script<%.*?%>.*?<% end %>>(.*)</script>", WIDGET, re.DOTALL)
    assert found is not None
    script, answer = tmp_path / "widget.js", tmp_path / "answer.json"
    script.write_text(found[1])
    (tmp_path / "site").mkdir()
    with served_workflow(tmp_path / "site") as workflow:
        jobs = workflow.site.api("user/jobs", user="ada", limit="1")
    killed = {"jobs": 2, "last": {"name": "<b>grow</b>", "job_id": "7"}, "advice": "Request 8G.", "ask_lines": []}
    answer.write_text(json.dumps(jobs | {"killed_jobs": 1, "killed": [killed]}))

    def shown(status: int) -> list[str]:
        command = ["node", "-e", NODE, "node", str(script), str(answer), str(status)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))

    assert shown(200) == [
        "0 jobs running, 0 waiting",
        "92 % of requested memory unused on alpha",
        "1 job killed for memory or time in seven days",
        "<b>grow</b>: Request 8G.",
    ]
    assert shown(403) == ["Jobsight cannot be asked now: it answered 403"]


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the user whom the proxy names."""

    def do_GET(self) -> None:
        body = (self.headers["X-Remote-User"] or "nobody").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def behind_nginx(folder: Path) -> Iterator[int]:
    """The port of an nginx with the shipped lines, before a server that echoes the user."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    assert program is not None
    echo = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=echo.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shipped = (FOLDER / "nginx-ondemand.conf").read_text()
    shipped = shipped.replace("/etc/nginx/ondemand-client.pem", str(folder / "ondemand.pem"))
    outside, inside = re.split(r"^# Into `server` .*\n", shipped, flags=re.MULTILINE)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    main = folder / "nginx.conf"
    main.write_text(
        f"daemon off; master_process off; pid {folder}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off;\n"
        f"{' '.join(f'{kind}_temp_path {folder}/{kind};' for kind in kinds)}\n{outside}\nserver {{\n"
        f"listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/site.pem; ssl_certificate_key {folder}/site.key;\n"
        f"{inside}\nlocation / {{ proxy_pass http://127.0.0.1:{echo.server_port}; }} }} }}\n"
    )

    def answers() -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return True
        return False

    with subprocess.Popen([program, "-c", str(main)]) as process:
        try:
            wait_until(answers, 60, lambda: "nginx does not listen")
            yield port
        finally:
            process.terminate()
            echo.shutdown()
            echo.server_close()


@pytest.mark.skipif(not shutil.which("nginx", path="/usr/sbin:/usr/bin"), reason="nginx is not installed")
@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_the_header_counts_for_ondemand_s_certificate_only(tmp_path: Path) -> None:
    for name, subject in (("site", "jobsight.example.org"), ("ondemand", "ondemand"), ("other", "ondemand")):
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={subject}"]
        made += ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        subprocess.run(made, capture_output=True, check=True)

    def asked(port: int, certificate: str | None) -> str:
        context = ssl.create_default_context(cafile=tmp_path / "site.pem")
        context.check_hostname = False
        if certificate is not None:
            context.load_cert_chain(tmp_path / f"{certificate}.pem", tmp_path / f"{certificate}.key")
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        connection.request("GET", "/api/v1/user/jobs", headers={"X-Remote-User": "ada"})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return body if answer.status == 200 else str(answer.status)

    with behind_nginx(tmp_path) as port:
        assert asked(port, "ondemand") == "ada"
        assert asked(port, None) == "nobody"
        assert asked(port, "other") == "400"  # it says the same of itself, and is another's
