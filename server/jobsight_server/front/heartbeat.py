"""A sign of life from one process to another: its event loop still turns.

A process that computes, waits for its database or gets little CPU time still gives one now and then. A process that was
stopped, or has a stuck loop, never does.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger(__name__)

PATIENCE = 60
"""Checks in a row without a sign of life. On an overloaded machine, the parent checks late too."""

_LOOK_S = 1.0


def beater(descriptor: int) -> Callable[[], None]:
    """Return a function that gives a sign of life to the ``Heartbeat`` with this descriptor."""
    os.set_blocking(descriptor, False)

    def beat() -> None:
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(descriptor, b".")

    return beat


class Heartbeat:
    """Watches the process with ``descriptor``. Until its first sign of life, it is starting and may take long."""

    def __init__(self) -> None:
        self._looking, self.descriptor = os.pipe()
        os.set_blocking(self._looking, False)
        self._begun, self._missed, self._next_look = False, 0, 0.0

    def watch(self, pid: int, name: str) -> None:
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
                log.error("the %s, process %d, runs but does not answer: %d looks in vain", name, pid, PATIENCE)
                os.kill(pid, signal.SIGUSR1)  # makes it log the stacks of its threads
            elif self._missed > PATIENCE:
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._looking)
        os.close(self.descriptor)

    def _has_beaten(self) -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(self._looking, 65536))
        return False
