"""Reads a command's output as it arrives, with a limit on silence; then stops the command and its children."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from sqlalchemy import Engine

from jobsight_server.accounting.files import UnreadableError
from jobsight_server.accounting.load import LoadReport
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.ground.seldom import Seldom
from jobsight_server.settings.declared import AccountingSource

_LOOK_EVERY_S = 0.5  # how often to check for a request to stop
_ERROR_BYTES = 4096
_SHOWN = 200


class CommandError(UnreadableError):
    """A command that could not be run, failed, or took too long; the message adds its standard error."""


class CommandOutput:
    """Run a command without a shell and yield its standard output piece by piece.

    ``stop`` ends it early, as does a silence of ``timeout_s``. ``environment``: variables to add.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        timeout_s: float,
        stop: threading.Event | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Raise CommandError if the command cannot be run."""
        self._timeout_s, self._stop = timeout_s, stop
        self._deadline = time.monotonic() + timeout_s
        self._errors = b""
        self.stopped = self._ended = False
        try:
            # In a session of its own, so that its children can be stopped with it.
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CommandError("cannot be run", f"{arguments[0]}: {reason}") from error
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ)

    def __enter__(self) -> CommandOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:  # not reaped yet, so no other process has its number
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; b"" at the end, or at ``stop``.

        Raises:
            CommandError: it has been silent for too long.
        """
        self._deadline = time.monotonic() + self._timeout_s
        while not (self.stopped or self._ended):
            piece = self._next(size)
            if piece is not None:
                self._ended = not piece
                return piece
            self.stopped = self._stop is not None and self._stop.is_set()
        return b""

    def _next(self, size: int) -> bytes | None:
        """Wait a little, and return a piece of the output, None if there is none; keep some of standard error."""
        for key, _ in self._selector.select(min(self._left_s(), _LOOK_EVERY_S)):
            piece = os.read(key.fd, size)
            if not piece:
                self._selector.unregister(key.fileobj)
            if key.fileobj is self._process.stdout:
                return piece
            self._errors = (self._errors + piece)[-_ERROR_BYTES:]
        return None

    def whole(self, most: int) -> bytes:
        """Return all of the output of a command that succeeds, or some of it at ``stop``.

        Raises:
            CommandError: it failed, was silent for too long, or there are more than ``most`` bytes.
        """
        found = bytearray()
        while piece := self.read(1 << 16):
            found += piece
            if len(found) > most:
                raise CommandError(f"its output has more than {most} bytes")
        if not self.stopped:
            self.finish()
        return bytes(found)

    def finish(self) -> None:
        """Wait for the end of the command after its output has ended.

        Raises:
            CommandError: it failed, or was silent for too long.
        """
        self._deadline = time.monotonic() + self._timeout_s
        while self._selector.get_map():
            self._next(_ERROR_BYTES)
        try:
            status = self._process.wait(self._left_s())
        except subprocess.TimeoutExpired:
            raise self._late() from None
        if status:
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            raise CommandError(how, self._error_line())

    def _left_s(self) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise self._late()
        return left_s

    def _late(self) -> CommandError:
        return CommandError(f"silent for {self._timeout_s:g} s", self._error_line())

    def _error_line(self) -> str:
        """Return the last line of its standard error."""
        lines = [line.strip() for line in self._errors.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
        return "".join(c if c.isprintable() else "?" for c in lines[-1][:_SHOWN]) if lines else ""


log = logging.getLogger(__name__)


@dataclass(slots=True)
class CommandSource:
    """Reads the output of a cluster's commands, and remembers failures, to log once when a command works again."""

    engine: Engine
    source: AccountingSource
    clock: Callable[[], float]
    seldom: Seldom
    _failing: set[str] = field(default_factory=set)

    def attempt(self, name: str, read: Callable[[LoadReport], None]) -> LoadReport:
        """Call ``read``, which may raise CommandError, for the source shown as ``name``."""
        report = LoadReport()
        try:
            read(report)
            if name in self._failing:
                self._failing.remove(name)
                log.info("accounting of %s: %s can be read again", self.source.cluster, name)
        except CommandError as error:
            self._failing.add(name)
            report.unreadable[name] = str(error)
            if self.seldom.lets((name, str(error)), self.clock()):
                log.warning("accounting of %s: %s: %s", self.source.cluster, name, error)
            with self.engine.begin() as connection:
                add_event_counts(connection, {("accounting_unreadable", f"{name}: {error.reason}"): 1})
        return report
