"""A server that keeps and queues more matches than a site would: of DATABASE, on LISTEN and INGEST_LISTEN."""

from __future__ import annotations

import logging
import sys

from jobsight_server.serve.children import note_the_end
from jobsight_server.serve.supervisor import supervise
from jobsight_server.settings.declared import Settings

_MANY = {"matching": {"kept": 1_000_000, "queued_at_most": 1_000_000}}


def main() -> None:
    """Serve until a signal to stop."""
    logging.basicConfig(level=logging.WARNING)
    database, listen, ingest = sys.argv[1:]
    settings = Settings(database=database, listen=(listen,), ingest_listen=ingest, query_workers=1, sections=_MANY)
    supervise(settings, note_the_end())


if __name__ == "__main__":
    main()
