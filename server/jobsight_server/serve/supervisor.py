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
from dataclasses import dataclass, field

from jobsight_server.front.addresses import accepts
from jobsight_server.front.heartbeat import Heartbeat
from jobsight_server.serve.roles import REFUSED, ROLES
from jobsight_server.settings import Settings
from jobsight_server.storage.errors import UserError

log = logging.getLogger(__name__)

_STOP_S = 25.0
_QUICK_END_S = 3.0  # a role that ends sooner after its start has a lasting fault, such as a port in use
_QUICK_ENDS = 3
_RENEW_S = 5.0
# Each thread would keep the memory of a large batch; with this, glibc returns large blocks at once.
_ALLOCATOR = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(2**20)}


@dataclass(slots=True)
class _Role:
    name: str
    process: subprocess.Popen[str]
    heartbeat: Heartbeat
    started: float
    quick_ends: int = field(default=0)


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
                self._roles.append(_Role(name, *self._start(name), time.monotonic()))
            renewed = time.monotonic()
            is_ready = False
            while not stop.wait(0.2):
                for role in self._roles:
                    self._watch(role)
                if not is_ready and all(map(accepts, addresses)):
                    is_ready = True
                    self._ready()
                if time.monotonic() > renewed + _RENEW_S:
                    self._renew()
                    renewed = time.monotonic()
        finally:
            self._stop_all()

    def _start(self, name: str) -> tuple[subprocess.Popen[str], Heartbeat]:
        heartbeat = Heartbeat()
        # -P: no modules from the current directory, where others may write.
        command = [sys.executable, "-P", "-m", "jobsight_server.serve.roles", name, str(heartbeat.descriptor)]
        # A session of its own: Ctrl-C reaches only the supervisor, which stops the roles cleanly.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**_ALLOCATOR, **os.environ},
            pass_fds=[heartbeat.descriptor],
        )
        assert process.stdin is not None
        try:
            process.stdin.write(self._settings.to_json() + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            log.error("%s ended before it read its settings", name)
        return process, heartbeat

    def _watch(self, role: _Role) -> None:
        status = role.process.poll()
        if status is None:
            role.heartbeat.watch(role.process.pid, role.name)
            return
        if status == REFUSED:
            raise UserError(f"the {role.name} cannot work on this database; see the messages above")
        lasted = time.monotonic() - role.started
        role.quick_ends = role.quick_ends + 1 if lasted < _QUICK_END_S else 0
        if role.quick_ends >= _QUICK_ENDS:
            raise UserError(
                f"the {role.name} ended {_QUICK_ENDS} times right at its start (status {status}); see above"
            )
        log.warning("the %s ended with status %s after %.0f s; starting it again", role.name, status, lasted)
        role.heartbeat.close()
        role.process, role.heartbeat = self._start(role.name)
        role.started = time.monotonic()

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
