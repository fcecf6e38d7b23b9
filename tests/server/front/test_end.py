"""Processes of the server end whatever happens to the one that started them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# What arrives before uvicorn's loop turns must count as well.
TERMINATED_EARLY = """
import os, signal
from jobsight_server.front.table import CONNECTIONS, ConnectionLimits
from jobsight_server.front.addresses import listen
from jobsight_server.front.server import Front, run

class Early(Front):
    def run(self, sockets):
        os.kill(os.getpid(), signal.SIGTERM)
        super().run(sockets)

run(Early(None, ConnectionLimits(held_bytes=2**20, connections=CONNECTIONS), 1), [listen("127.0.0.1:0", 128)])
"""

DEAF = """
import signal, time
from jobsight_server.serve.children import exit_with_parent

signal.signal(signal.SIGTERM, signal.SIG_IGN)
exit_with_parent(0, grace_s=0.5)
time.sleep(600)
"""


@pytest.mark.parametrize(("program", "status"), [(TERMINATED_EARLY, 0), (DEAF, -signal.SIGKILL)])
def test_a_process_ends(program: str, status: int) -> None:
    process = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert process.returncode == status
