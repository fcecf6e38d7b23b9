"""Several processes of one role: forked after loading, to share memory; restarted when they end or are stuck."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

from jobsight_server.front.exit_with_parent import exit_with_parent
from jobsight_server.front.heartbeat import Heartbeat, beater
from jobsight_server.storage.errors import UserError

log = logging.getLogger(__name__)

_QUICK_END_S = 3.0
_QUICK_ENDS = 3
_PAUSE_S = 0.2


def run_workers(
    count: int, work: Callable[[Callable[[], None]], None], beat: Callable[[], None] = lambda: None
) -> None:
    """Run ``work`` in ``count`` children until SIGTERM or SIGINT; pass it on to them.

    ``work`` gets the function for its sign of life; ``beat``, for this process's own, runs several times a second.

    Raises:
        UserError: workers cannot stay up; their last messages are on standard error.
    """
    parent_alive, held = os.pipe()  # the other end closes with this process, however it ends
    started: dict[int, tuple[float, Heartbeat]] = {}
    stopping = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for child in started:
            os.kill(child, signal.SIGTERM)

    def start() -> None:
        heartbeat = Heartbeat()
        child = os.fork()
        if child == 0:
            os.close(held)
            _be_worker(parent_alive, partial(work, beater(heartbeat.descriptor)))
        started[child] = time.monotonic(), heartbeat
        if stopping:
            os.kill(child, signal.SIGTERM)

    quick_ends = 0
    try:
        for _ in range(count):
            start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        while started:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                beat()
                for worker, (_, heartbeat) in started.items():
                    heartbeat.watch(worker, "query worker")
                time.sleep(_PAUSE_S)
                continue
            begun, heartbeat = started.pop(child)
            heartbeat.close()
            lasted = time.monotonic() - begun
            if stopping:
                continue
            quick_ends = quick_ends + 1 if lasted < _QUICK_END_S else 0
            if quick_ends >= _QUICK_ENDS:
                raise UserError(
                    f"a query worker ended {quick_ends} times right at its start (status {status}); see above"
                )
            log.warning("query worker %d ended with status %d after %.0f s; starting another", child, status, lasted)
            start()
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
    except Exception:
        log.exception("a query worker failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
