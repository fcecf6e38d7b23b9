"""The supervisor: starts the roles, restarts any that ends by itself or is stuck, stops them together."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobsight_server.front.addresses import accepts
from jobsight_server.front.prefork import Watch
from jobsight_server.ground.errors import UserError
from jobsight_server.serve.roles import REFUSED, ROLES
from jobsight_server.settings.declared import Settings

log = logging.getLogger(__name__)

_STOP_S = 25.0
_RENEW_S = 5.0
# Each thread would keep the memory of a large batch; with these, glibc returns large blocks at once. Threads of BLAS
# wait busily for products of small matrices, which takes more CPU time than these.
_LIBRARIES = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(2**20), "OPENBLAS_NUM_THREADS": "1"}


@dataclass(slots=True)
class _Role:
    name: str
    watch: Watch
    process: subprocess.Popen[str]


class Supervisor:
    """Runs the roles as child processes until ``stop`` is set; ``writer:CLUSTER,...`` is a writer of these clusters.

    ``renew`` runs every few seconds and ends everything by raising: another server may have taken the database.
    ``ready`` runs once, when all addresses accept connections.
    """

    def __init__(
        self,
        settings: Settings,
        renew: Callable[[], None] = lambda: None,
        ready: Callable[[], None] = lambda: None,
        roles: Sequence[str] = tuple(ROLES),
    ) -> None:
        self._settings, self._renew, self._ready, self._names = settings, renew, ready, roles
        self._roles: list[_Role] = []

    def run(self, stop: threading.Event) -> None:
        """Run the roles until ``stop`` is set and all have ended.

        Raises:
            UserError: a role cannot stay up; its last messages are on standard error.
        """
        try:
            addresses = addresses_of(self._names, self._settings)
            for name in self._names:
                watch = Watch(name)
                self._roles.append(_Role(name, watch, self._start(name, watch.descriptor)))
            renewed = time.monotonic()
            is_ready = False
            while not stop.wait(0.2):
                for role in self._roles:
                    self._look_at(role)
                if not is_ready and all(map(accepts, addresses)):
                    is_ready = True
                    self._ready()
                if time.monotonic() > renewed + _RENEW_S:
                    self._renew()
                    renewed = time.monotonic()
        finally:
            self._stop_all()

    def _start(self, name: str, heartbeat: int) -> subprocess.Popen[str]:
        # -P: no modules from the current directory, where others may write.
        command = [sys.executable, "-P", "-m", "jobsight_server.serve.roles", name, str(heartbeat)]
        # A session of its own: Ctrl-C reaches only the supervisor, which stops the roles cleanly.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**_LIBRARIES, **os.environ},
            pass_fds=[heartbeat],
        )
        assert process.stdin is not None
        try:
            process.stdin.write(self._settings.to_json() + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            log.error("%s ended before it read its settings", name)
        return process

    def _look_at(self, role: _Role) -> None:
        status = role.process.poll()
        if status is None:
            role.watch.look(role.process.pid)
            return
        if status == REFUSED:
            raise UserError(f"the {role.name} cannot work on this database; see the messages above")
        role.watch.restart(role.process.pid, status)
        role.process = self._start(role.name, role.watch.descriptor)

    def _stop_all(self) -> None:
        deadline = time.monotonic() + _STOP_S
        for role in self._roles:
            if role.process.poll() is None:
                role.process.send_signal(signal.SIGTERM)
        for role in self._roles:
            try:
                role.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("the %s did not stop within %.0f s; killing it", role.name, _STOP_S)
                role.process.kill()
                role.process.wait()


def addresses_of(roles: Sequence[str], settings: Settings) -> list[str]:
    """Return the addresses of these roles."""
    listens = {"query": settings.listen, "writer": (settings.ingest_listen,)}
    return [address for role in roles for address in listens.get(role.partition(":")[0], ())]
