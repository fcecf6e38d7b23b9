"""The work of each role, in its own process.

    python -m jobsight_server.serve.roles ROLE[:CLUSTERS] DESCRIPTOR

reads the settings as JSON from standard input, which stays open while the supervisor lives: a role ends with it, even
if the supervisor was killed. Roles that answer requests give a sign of life on the descriptor, a pipe.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from jobsight_server.front.prefork import beater, exit_with_parent
from jobsight_server.ground.errors import UserError
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import LockedError, role_lock

REFUSED = 3
"""Exit status of a role whose database belongs to another server: restarting it cannot help."""

_LOCK_S = 30.0  # roles of a killed server may still be ending


def run_writer(settings: Settings, beat: Callable[[], None], clusters: Sequence[str]) -> None:
    """Run ingest of ``clusters``, or of all if empty: one process, with a thread that writes."""
    from jobsight_server.serve.writer import serve_writer

    gc.enable()
    # In one order: two writers with common clusters must never wait for each other.
    names = [f"writer of {cluster}" for cluster in sorted(set(clusters))] or ["writer"]
    with ExitStack() as locks:
        # An engine each: in PostgreSQL each lock keeps a session, and a pool has few.
        fences = [locks.enter_context(role_lock(open_engine(settings.database), name, _LOCK_S)) for name in names]
        serve_writer(settings, fences, beat, frozenset(clusters) or None)


def run_query(settings: Settings, beat: Callable[[], None], _clusters: Sequence[str]) -> None:
    """Run the API and the pages: several stateless processes."""
    from jobsight_server.serve.query import serve_queries

    gc.enable()
    serve_queries(settings, beat)


def run_background(settings: Settings, _beat: Callable[[], None], _clusters: Sequence[str]) -> None:
    """Follow accounting, profile jobs, maintain the database; one process per database."""
    from jobsight_server.serve.background import run_until

    gc.enable()
    engine = open_engine(settings.database)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with role_lock(engine, "background", _LOCK_S) as fence:
        run_until(stop, fence.guard(engine), settings)


ROLES = {"writer": run_writer, "query": run_query, "background": run_background}


def main() -> int:
    """Run the role that the command line names."""
    role, _, clusters = sys.argv[1].partition(":")
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {role} %(levelname)s %(message)s")
    # Skipping a run because the previous one is still working is intended, not a warning.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    settings = Settings.from_json(sys.stdin.readline())
    gc.disable()  # until modules are loaded: what they make stays, and looking for garbage takes a tenth of a start
    exit_with_parent()
    faulthandler.register(signal.SIGUSR1)
    try:
        ROLES[role](settings, beater(int(sys.argv[2])), clusters.split(",") if clusters else [])
    except LockedError as error:
        logging.error("%s", error)
        return REFUSED
    except UserError as error:
        logging.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
