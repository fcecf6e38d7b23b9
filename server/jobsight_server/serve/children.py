"""Processes forked from one that watches them: a sign of life, restarts, the end with the parent.

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
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from jobsight_server.ground.errors import UserError

log = logging.getLogger(__name__)

PATIENCE = 60
"""Checks in a row without a sign of life. On an overloaded machine, the parent checks late too."""

_LOOK_S = 1.0
_QUICK_END_S = 3.0  # a process that ends sooner after its start has a lasting fault, such as a port in use
_QUICK_ENDS = 3
REFUSED = 3
"""Exit status of a process whose database belongs to another server: restarting it cannot help."""
_ENDING = (signal.SIGTERM, signal.SIGINT)
_STOP_S = 25.0
_LOOK_AT_END_S = 0.05
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


def exit_with_parent(descriptor: int, grace_s: float = _GRACE_S) -> None:
    """End this process when the descriptor, a pipe from the parent, closes.

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


def note_the_end() -> threading.Event:
    """Return an event that SIGTERM or SIGINT sets."""
    stop = threading.Event()
    for number in _ENDING:
        signal.signal(number, lambda *_: stop.set())
    return stop


Work = Callable[[Callable[[], None]], int]
"""What a child does: it gets the function for its sign of life, and returns its exit status."""


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    work: Work
    watch: Watch


class Children:
    """Processes that share the memory of this one; each is started again if it ends by itself or is stuck.

    They end with the block, and with this process, however it ends.
    """

    def __init__(self, keep: Collection[int] = ()) -> None:
        """Children keep the descriptors ``keep`` and the standard ones; all others are closed in them."""
        self._keep = keep
        self._parent_alive, self._held = os.pipe()  # the other end closes with this process
        self._children: dict[int, _Child] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all children; kill those that still run after 25 s."""
        deadline = time.monotonic() + _STOP_S
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)
        for pid, child in self._children.items():
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    log.warning("the %s did not stop within %.0f s; killing it", child.name, _STOP_S)
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    break
                time.sleep(_LOOK_AT_END_S)
            child.watch.close()
        os.close(self._parent_alive)
        os.close(self._held)

    def start(self, name: str, work: Work, watch: Watch | None = None) -> None:
        """Fork a process that does the work."""
        child = _Child(name, work, watch or Watch(name))
        sys.stdout.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # for the child's own handlers, not the parent's
        try:
            pid = os.fork()
            if pid == 0:
                self._be(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._children[pid] = child

    def look(self) -> None:
        """Restart children that have ended, kill those that are stuck; call this several times a second.

        Raises:
            UserError: a child cannot stay up; its last messages are on standard error.
        """
        for pid, child in list(self._children.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                child.watch.look(pid)
                continue
            del self._children[pid]
            code = os.waitstatus_to_exitcode(status)
            if code == REFUSED:
                raise UserError(f"the {child.name} cannot work on this database; see the messages above")
            child.watch.restart(pid, code)
            self.start(child.name, child.work, child.watch)

    def _be(self, child: _Child) -> None:
        """Do the child's work, and never return: this process must not continue with the parent's call stack."""
        status = 1
        try:
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            _close_all_but({0, 1, 2, self._parent_alive, child.watch.descriptor, *self._keep})
            exit_with_parent(self._parent_alive)
            status = child.work(beater(child.watch.descriptor))
        except Exception:  # os._exit below prints no traceback
            log.exception("the %s failed", child.name)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _close_all_but(kept: Collection[int]) -> None:
    """Close the parent's other files and sessions in this child: the parent's locks must end when the parent does."""
    for descriptor in {int(file.name) for file in Path("/dev/fd").iterdir()} - {*kept}:
        with suppress(OSError):  # that of the directory itself
            os.close(descriptor)
