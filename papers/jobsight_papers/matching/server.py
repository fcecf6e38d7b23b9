"""A server that keeps and queues more matches than a site would; its settings come as JSON on standard input."""

from __future__ import annotations

import logging
import sys

from jobsight_server.serve.children import note_the_end
from jobsight_server.serve.supervisor import supervise
from jobsight_server.settings.declared import Settings


def main() -> None:
    """Serve until a signal to stop."""
    logging.basicConfig(level=logging.WARNING)
    supervise(Settings.from_json(sys.stdin.readline()), note_the_end())


if __name__ == "__main__":
    main()
