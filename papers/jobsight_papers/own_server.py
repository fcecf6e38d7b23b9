"""A server of an experiment's own, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobsight_server.ground.errors import UserError

_READY_S, _STOPPED_S = 180.0, 60.0


@contextmanager
def serving(command: Sequence[str], is_ready: Callable[[], bool], log: Path) -> Iterator[None]:
    """Run a server, from when it is ready to the end of the block.

    Raises:
        UserError: it does not become ready; the message has the end of its ``log``.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        limit = time.monotonic() + _READY_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > limit:
                raise UserError(f"the server of the experiment did not start:\n{log.read_text()[-1000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOPPED_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_address() -> str:
    """Return an address of this machine with a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"
