"""Ends a child process when its parent is gone, even if it was killed."""

from __future__ import annotations

import os
import signal
import threading


def exit_with_parent(descriptor: int = 0) -> None:
    """From now on, this process ends when standard input, a pipe from the parent, is closed."""
    threading.Thread(target=_wait, args=(descriptor,), daemon=True).start()


def _wait(descriptor: int) -> None:
    # Bypasses Python's buffer, whose lock would be held while the interpreter shuts down.
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
