"""Ends a child process when its parent is gone, even where that was killed."""

from __future__ import annotations

import os
import signal
import threading


def exit_with_parent(descriptor: int = 0) -> None:
    """From now on the end of a pipe whose other end the parent holds (standard input) terminates this process."""
    threading.Thread(target=_wait, args=(descriptor,), daemon=True).start()


def _wait(descriptor: int) -> None:
    # Past Python's own buffer, whose lock would be held while the interpreter shuts down.
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
