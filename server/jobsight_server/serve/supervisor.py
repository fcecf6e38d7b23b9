"""The supervisor: starts the roles, restarts any that ends by itself or is stuck, stops them together."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

from jobsight_server.front.addresses import accepts
from jobsight_server.ground.errors import UserError
from jobsight_server.serve.children import REFUSED, Children
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.lock import LockedError

ROLES = ("writer", "query", "background")
"""Modules of this package, each with ``run_role``, which works until SIGTERM."""

_LOOK_S, _RENEW_S = 0.5, 5.0
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3


def supervise(
    settings: Settings,
    stop: threading.Event,
    roles: Sequence[str] = ROLES,
    renew: Callable[[], None] = lambda: None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run the roles as processes until ``stop`` is set and all have ended.

    ``writer:CLUSTER,...`` is a writer of these clusters. ``renew`` runs every few seconds and ends everything by
    raising: another server may have taken the database. ``ready`` runs once, when all addresses accept connections.

    Raises:
        UserError: a role cannot stay up; its last messages are on standard error.
    """
    addresses = addresses_of(roles, settings)
    works = {role: partial(_run, role, module, settings) for role, module in _loaded(roles).items()}
    with Children() as children:
        for role, work in works.items():
            children.start(role, work)
        renewed = time.monotonic()
        is_ready = False
        while not stop.wait(_LOOK_S):
            children.look()
            if not is_ready and all(map(accepts, addresses)):
                is_ready = True
                ready()
            if time.monotonic() > renewed + _RENEW_S:
                renew()
                renewed = time.monotonic()


def _loaded(roles: Sequence[str]) -> dict[str, ModuleType]:
    """Return the module of each role, loaded once: the processes share its memory."""
    # Each thread would keep the memory of a large batch; with these, glibc returns large blocks at once.
    with suppress(AttributeError):  # another library of C
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 2**20)
    gc.disable()  # what modules make stays, and looking for garbage takes a tenth of a start
    loaded = {role: import_module(f"jobsight_server.serve.{role.partition(':')[0]}") for role in roles}
    gc.freeze()  # a collection in a role would copy the pages that it shares with the others
    gc.enable()
    return loaded


def _run(role: str, module: ModuleType, settings: Settings, beat: Callable[[], None]) -> int:
    """Do the work of a role in its process; return the exit status."""
    name, _, clusters = role.partition(":")
    os.setsid()  # Ctrl-C reaches only the supervisor, which stops the roles cleanly
    with suppress(OSError):  # where there is no /proc, all processes have one name
        Path("/proc/self/comm").write_text(f"jobsight {name}")
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {name} %(levelname)s %(message)s", force=True)
    # Skipping a run because the previous one is still working is intended, not a warning.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    faulthandler.register(signal.SIGUSR1)
    try:
        module.run_role(settings, beat, clusters.split(",") if clusters else [])
    except LockedError as error:
        logging.error("%s", error)
        return REFUSED
    except UserError as error:
        logging.error("%s", error)
        return 1
    return 0


def addresses_of(roles: Sequence[str], settings: Settings) -> list[str]:
    """Return the addresses of these roles."""
    listens = {"query": settings.listen, "writer": (settings.ingest_listen,)}
    return [address for role in roles for address in listens.get(role.partition(":")[0], ())]
