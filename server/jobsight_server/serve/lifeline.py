"""Ends a child process when its parent is gone, even where that was killed."""

from __future__ import annotations

import os
import signal
import threading


def end_with_parent() -> None:
    """From now on the end of standard input, a pipe whose other end the parent holds, terminates this process."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    # Past Python's own buffer, whose lock would be held while the interpreter shuts down.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
