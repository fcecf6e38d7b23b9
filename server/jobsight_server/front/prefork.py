"""Processes that another one watches: a sign of life, restarts, the end with the parent; several workers of one role.

A process that computes, waits for its database or gets little CPU time still gives a sign of life now and then. A
process that was stopped, or has a stuck event loop, never does.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType

from jobsight_server.ground.errors import UserError

log = logging.getLogger(__name__)

PATIENCE = 60
"""Checks in a row without a sign of life. On an overloaded machine, the parent checks late too."""

_LOOK_S = 1.0
_QUICK_END_S = 3.0  # a process that ends sooner after its start has a lasting fault, such as a port in use
_QUICK_ENDS = 3
_PAUSE_S = 0.2
_GRACE_S = 30.0


def beater(descriptor: int) -> Callable[[], None]:
    """Return a function that gives a sign of life to the ``Watch`` with this descriptor."""
    os.set_blocking(descriptor, False)

    def beat() -> None:
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(descriptor, b".")

    return beat


class Watch:
    """Watches a process and, after its end, the next one of this name; ``descriptor`` takes its signs of life.

    Until its first sign of life, a process is starting and may take long.
    """

    def __init__(self, name: str) -> None:
        self._name, self._quick_ends, self._next_look = name, 0, 0.0
        self._begin()

    def look(self, pid: int) -> None:
        """End the process if it is stuck; call this several times a second."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        if self._has_beaten():
            self._begun, self._missed = True, 0
        elif self._begun:
            self._missed += 1
            if self._missed == PATIENCE:
                log.error("the %s, process %d, runs but does not answer: %d looks in vain", self._name, pid, PATIENCE)
                os.kill(pid, signal.SIGUSR1)  # makes it log the stacks of its threads
            elif self._missed > PATIENCE:
                os.kill(pid, signal.SIGKILL)

    def restart(self, pid: int, status: int) -> None:
        """Take note that the process has ended; the caller starts the next one.

        Raises:
            UserError: this happens again and again; the last messages are on standard error.
        """
        lasted = time.monotonic() - self._started
        self._quick_ends = self._quick_ends + 1 if lasted < _QUICK_END_S else 0
        if self._quick_ends >= _QUICK_ENDS:
            message = f"the {self._name} ended {_QUICK_ENDS} times right at its start (status {status}); see above"
            raise UserError(message)
        log.warning(
            "the %s, process %d, ended with status %d after %.0f s; starting it again", self._name, pid, status, lasted
        )
        self.close()
        self._begin()

    def close(self) -> None:
        os.close(self._looking)
        os.close(self.descriptor)

    def _begin(self) -> None:
        self._looking, self.descriptor = os.pipe()
        os.set_blocking(self._looking, False)
        self._begun, self._missed, self._started = False, 0, time.monotonic()

    def _has_beaten(self) -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(self._looking, 65536))
        return False


def exit_with_parent(descriptor: int = 0, grace_s: float = _GRACE_S) -> None:
    """End this process when standard input, a pipe from the parent, closes.

    It gets SIGTERM first and, if it still runs ``grace_s`` seconds later, SIGKILL: no parent is left to do it.
    """
    threading.Thread(target=_wait, args=(descriptor, grace_s), daemon=True).start()


def _wait(descriptor: int, grace_s: float) -> None:
    # Bypasses Python's buffer: its lock would be held while the interpreter shuts down.
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os.kill(os.getpid(), signal.SIGKILL)


def run_workers(
    count: int, work: Callable[[Callable[[], None]], None], beat: Callable[[], None] = lambda: None
) -> None:
    """Run ``work`` in ``count`` children, forked to share memory, until SIGTERM or SIGINT; pass it on to them.

    ``work`` gets the function for its sign of life; ``beat``, for this process's own, runs several times a second.

    Raises:
        UserError: workers cannot stay up; their last messages are on standard error.
    """
    parent_alive, held = os.pipe()  # the other end closes with this process, however it ends
    started: dict[int, Watch] = {}
    stopping = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for child in started:
            os.kill(child, signal.SIGTERM)

    def start(watch: Watch) -> None:
        child = os.fork()
        if child == 0:
            os.close(held)
            _be_worker(parent_alive, partial(work, beater(watch.descriptor)))
        started[child] = watch
        if stopping:
            os.kill(child, signal.SIGTERM)

    try:
        for _ in range(count):
            start(Watch("query worker"))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        while started:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                beat()
                for worker, watch in started.items():
                    watch.look(worker)
                time.sleep(_PAUSE_S)
                continue
            watch = started.pop(child)
            if not stopping:
                watch.restart(child, status)
                start(watch)
    finally:
        os.close(parent_alive)
        os.close(held)


def _be_worker(parent_alive: int, work: Callable[[], None]) -> None:
    """Run a worker, and never return: this process must not continue with the parent's call stack."""
    status = 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    try:
        exit_with_parent(parent_alive)
        work()
        status = 0
    except Exception:  # os._exit below prints no traceback
        log.exception("a query worker failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
