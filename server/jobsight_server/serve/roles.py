"""What each role runs in its own process.

    python -m jobsight_server.serve.roles ROLE

reads the settings as JSON from standard input; standard input stays open as long as the supervisor lives, so that
a role ends with it even where the supervisor was killed.
"""

from __future__ import annotations

import atexit
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from jobsight_server.errors import UserError
from jobsight_server.serve.handover import BACKGROUND, QUERY, WRITER, settings_from_json
from jobsight_server.serve.lifeline import end_with_parent
from jobsight_server.settings import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import role_lock


class _Gunicorn(BaseApplication):  # type: ignore[misc]
    """gunicorn with options given as arguments, the application made in each worker."""

    def __init__(self, make_app: Callable[[], Flask], **options: Any) -> None:
        self._make_app = make_app
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        # gunicorn's own control socket would be one more door, in a directory that a service need not have.
        for name, value in {"control_socket_disable": True, "accesslog": None, **self._options}.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        return self._make_app()


def run_writer(settings: Settings) -> None:
    """Ingest: one process, many threads that wait, one that writes."""
    from jobsight_server.ingest.app import create_writer

    with role_lock(open_engine(settings.database), "writer") as fence:

        def make_app() -> Flask:
            app = create_writer(settings, open_engine(settings.database), fence=fence)
            atexit.register(app.extensions["committer"].close)
            return app

        _Gunicorn(
            make_app,
            bind=[settings.ingest_listen],
            workers=1,
            worker_class="gthread",
            threads=settings.ingest_threads,
            keepalive=75,
            graceful_timeout=15,
            proc_name="jobsight-writer",
        ).run()


def _defer_idle_connections(server: Any) -> None:
    """Lets the kernel keep connections that have sent nothing yet.

    Browsers open spare ones; a synchronous worker that accepted one would wait in it and answer nobody.
    """
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        for listener in server.LISTENERS:
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 60)


def run_query(settings: Settings) -> None:
    """The API and the pages: several synchronous workers, none keeps anything."""
    from jobsight_server.app import create_app

    def make_app() -> Flask:
        app = create_app(settings, open_engine(settings.database, "read"), open_engine(settings.database))
        # What is loaded by now stays: without it a full collection, in the middle of an answer, is over at once.
        gc.collect()
        gc.freeze()
        return app

    _Gunicorn(
        make_app,
        bind=[settings.listen],
        workers=settings.query_workers,
        worker_class="sync",
        when_ready=_defer_idle_connections,
        timeout=60,
        graceful_timeout=10,
        proc_name="jobsight-query",
    ).run()


def run_background(settings: Settings) -> None:
    """Follows accounting, profiles jobs, keeps the database up; one per database."""
    from jobsight_server.background import run_until

    engine = open_engine(settings.database)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with role_lock(engine, "background") as fence:
        run_until(stop, fence.guard(engine), settings)


ROLES = {WRITER: run_writer, QUERY: run_query, BACKGROUND: run_background}


def main() -> int:
    """Runs the role that the command line names."""
    role = sys.argv[1]
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {role} %(levelname)s %(message)s")
    # A run that is skipped because the one before it still works is the intended way, not a warning.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    # Alembic tells of each of its plugins, at import.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    settings = settings_from_json(sys.stdin.readline())
    end_with_parent()
    sys.argv = sys.argv[:1]  # gunicorn would read its own options there
    try:
        ROLES[role](settings)
    except UserError as error:
        logging.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
