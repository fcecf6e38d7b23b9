"""A server that keeps and queues more matches than a site would; its settings come as JSON on standard input."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from jobsight_server.serve.supervisor import Supervisor
from jobsight_server.settings.declared import Settings


def main() -> None:
    """Serve until a signal to stop."""
    logging.basicConfig(level=logging.WARNING)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Supervisor(Settings.from_json(sys.stdin.readline())).run(stop)


if __name__ == "__main__":
    main()
