"""``jobsight serve``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading

from jobsight_server.addresses import check_addresses
from jobsight_server.command_line.arguments import (
    add_settings,
    lock_database,
    open_database,
    settings_of,
    shown_database,
)
from jobsight_server.serve.supervisor import Supervisor
from jobsight_server.settings import Settings
from jobsight_server.storage.lock import ServerLock
from jobsight_server.systems.all_settings import all_sections


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, sections=all_sections())
    parser.add_argument(
        "--accounting",
        action="append",
        metavar="CLUSTER=DIRECTORY",
        help="follow the TORQUE accounting files of this cluster in this directory; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s serve %(levelname)s %(message)s")
    settings = settings_of(args, all_sections())
    logging.getLogger("alembic").setLevel(logging.WARNING)
    check_addresses(settings.listen, settings.ingest_listen)
    lock = lock_database(args)
    try:
        _serve(args, settings, lock)
    finally:
        lock.close()
    return 0


def _serve(args: argparse.Namespace, settings: Settings, lock: ServerLock) -> None:
    engine = open_database(args)
    engine.dispose()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    print(f"jobsight: database {shown_database(engine)}")
    for source in settings.accounting:
        absent = "" if source.sacct or source.place.exists() else " (does not exist yet)"
        print(f"jobsight: following {source.name} as cluster {source.cluster}{absent}")
    sys.stdout.flush()
    Supervisor(settings, lock.renew, lambda: _say_ready(settings)).run(stop)


def _say_ready(settings: Settings) -> None:
    ingest = f"samples also on http://{settings.ingest_listen}"
    print(f"jobsight: ready; API and pages on http://{settings.listen}, {ingest}", flush=True)
