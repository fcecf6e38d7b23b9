"""Hanging workers are replaced; busy ones are not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from site_run import wait_until

PROGRAM = """
import faulthandler, logging, os, signal, sys, threading, time
from pathlib import Path
from jobsight_server.serve import children

children.PATIENCE, children._LOOK_S = 12, 0.25
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
        time.sleep(0.1)
        beat()

stop = children.note_the_end()
with children.Children() as started:
    started.start("worker", work)
    while not stop.wait(0.2):
        started.look()
"""


class Parent:
    """A process that supervises one worker of this kind."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._begun, self.log = directory / "begun", directory / "log"
        with self.log.open("wb") as file:
            command = [sys.executable, "-c", PROGRAM, kind, str(self._begun)]
            self.process = subprocess.Popen(command, stdout=file, stderr=file)
        wait_until(lambda: bool(self.worker()), 60, self.log.read_text, 0.02)
        self.first, self._since = self.worker(), time.monotonic()

    def worker(self) -> str:
        """The number of its latest worker's process; empty while there is none."""
        return self._begun.read_text() if self._begun.exists() else ""

    def has_replaced(self) -> bool:
        return self.worker() not in {self.first, ""}

    def wait_until_after(self, seconds: float) -> None:
        """Return so long after the first worker began."""
        time.sleep(max(0.0, self._since + seconds - time.monotonic()))


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Parent]]:
    """One of each kind, all at once, as each has to be waited for."""
    found = {kind: Parent(kind, tmp_path_factory.mktemp(kind)) for kind in ("stuck", "stopped", "busy")}
    yield found
    for parent in found.values():
        parent.process.send_signal(signal.SIGTERM)
        assert parent.process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stuck", "stopped"])
def test_a_worker_that_does_not_answer_is_replaced(parents: dict[str, Parent], kind: str) -> None:
    parent = parents[kind]
    wait_until(parent.has_replaced, 60, parent.log.read_text)
    log = parent.log.read_text()
    assert f"the worker, process {parent.first}, runs but does not answer: 12 looks in vain" in log
    assert f"the worker, process {parent.first}, ended with status -9" in log
    if kind == "stuck":
        assert "in stuck_here" in log, "the log does not say where"


@pytest.mark.slow
def test_a_worker_that_has_much_to_do_is_not_replaced(parents: dict[str, Parent]) -> None:
    parent = parents["busy"]
    parent.wait_until_after(6.0)
    assert not parent.has_replaced()
    assert "does not answer" not in parent.log.read_text()
