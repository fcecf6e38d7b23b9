"""Workers that run and do not answer are replaced; workers that only have much to do are not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from site_run import wait_until

PROGRAM = """
import faulthandler, logging, os, signal, sys, threading, time
from pathlib import Path
from jobsight_server.front import heartbeat
from jobsight_server.front.prefork import run_workers

heartbeat.PATIENCE = 6
logging.basicConfig(level=logging.INFO)
faulthandler.register(signal.SIGUSR1)
kind, begun = sys.argv[1], Path(sys.argv[2])

def stuck_here():
    time.sleep(1000)

def work(beat):
    first = not begun.exists()
    begun.write_text(str(os.getpid()))
    beat()
    if first and kind == "stuck":
        stuck_here()
    if first and kind == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if first and kind == "busy":
        threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(int, 1)], daemon=True).start()
    while True:
        time.sleep(0.5)
        beat()

run_workers(1, work)
"""


def start(kind: str, begun: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen([sys.executable, "-c", PROGRAM, kind, str(begun)], stdout=file, stderr=file)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stuck", "stopped", "busy"])
def test_a_stuck_worker_is_replaced_and_a_busy_one_is_not(tmp_path: Path, kind: str) -> None:
    begun, log = tmp_path / "begun", tmp_path / "log"
    process = start(kind, begun, log)
    try:
        wait_until(lambda: begun.exists() and begun.read_text() != "", 60, lambda: log.read_text())
        first = begun.read_text()
        if kind == "busy":
            with pytest.raises(TimeoutError):
                wait_until(lambda: begun.read_text() != first, 12, lambda: "")
            assert "does not answer" not in log.read_text()
        else:
            wait_until(lambda: begun.read_text() not in {first, ""}, 60, lambda: log.read_text())
            assert f"query worker, process {first}, runs but does not answer: 6 looks in vain" in log.read_text()
            assert f"query worker {first} ended with status 9" in log.read_text()
        if kind == "stuck":
            assert "in stuck_here" in log.read_text(), "the log does not say where"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
