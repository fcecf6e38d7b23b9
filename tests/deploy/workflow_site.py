"""A served site that knows the tasks of one workflow, imported as their engine recorded them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import make
from tests.deploy.misbehaving import Serve

from site_run import JOBSIGHT, Site

USER = "ada"
MIB = 2**20
TASKS = 14
END = 4e9
"""Later than any test: a task that ended since shows how those lowered by the tests did."""
HEADER = "s\th:m:s\tmax_rss\tmax_vms\trule_name\tthreads\tresources\tinput_size_mb"


@dataclass(frozen=True, slots=True)
class Workflow:
    """Where the server listens, and a file with a token of role submitter."""

    site: Site
    token_file: Path

    def environment(self, **changes: str) -> dict[str, str]:
        """Environment of an engine that asks this server as ``USER`` with a long limit, as a busy machine may need over
        200 ms."""
        own = {
            "JOBSIGHT_SERVER": self.site.url,
            "JOBSIGHT_TOKEN_FILE": str(self.token_file),
            "LOGNAME": USER,
            "JOBSIGHT_LIMIT_MS": "5000",
        }
        return {**os.environ, **own, "JOBSIGHT_CLUSTER": "alpha", **changes}


def answering(*bodies: Any, asked: list[Any] | None = None) -> Serve:
    """A server that answers questions with these in turn, repeating the last; ``asked`` gets the questions."""
    left = [json.dumps(body).encode() for body in bodies]

    def serve(connection: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n{" not in received or not received.endswith(b"}"):
            received += connection.recv(65536)
        if asked is not None:
            asked.append(json.loads(received.partition(b"\r\n\r\n")[2]))
        body = left.pop(0) if len(left) > 1 else left[0]
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    return serve


def over_tls(serve: Serve, directory: Path) -> tuple[Serve, Path]:
    """``serve`` behind a certificate for 127.0.0.1 that signs itself, and the file of that."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def wrapped(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            serve(encrypted)

    return wrapped, certificate


@contextmanager
def served_workflow(directory: Path) -> Iterator[Workflow]:
    """Fourteen tasks ``align`` of 2 processors: 600 to 613 MiB of 8 GB requested, and 20 minutes of 4 hours."""
    site = make.site(directory)
    benchmarks = []
    for number in range(TASKS):
        file = directory / f"{number}.tsv"
        inputs = f"{{'in/{number}.fq': {100 + number}.0}}"
        line = f"1200.0\t0:20:00\t{600 + number}.00\t900\talign\t2\t{{'mem_mb': 8000, 'runtime': 240}}\t{inputs}"
        file.write_text(f"{HEADER}\n{line}\n")
        os.utime(file, (END + 2000 * number, END + 2000 * number))
        benchmarks.append(str(file))
    command = [*JOBSIGHT, "import", "snakemake", *benchmarks, "--user", USER, "--cluster", "alpha"]
    done = subprocess.run([*command, "--database", site.database], capture_output=True, text=True, check=False)
    assert f"{TASKS} new runs, {TASKS} profiled" in done.stdout, done.stdout + done.stderr
    token_file = directory / "submitter-token"
    token_file.touch(mode=0o600)
    token_file.write_text(site.token("submitter") + "\n")
    with site.serve():
        yield Workflow(site, token_file)
