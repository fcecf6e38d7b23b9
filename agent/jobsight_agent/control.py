"""The socket in the spool on which job hooks and operators reach the running agent.

A connection carries one request and one answer, each a packet of text (``SOCK_SEQPACKET``: packets arrive whole).
Only root and the agent's own user get an answer. A connection that sends nothing is closed after two seconds,
or earlier if newer ones need its place, so that idle connections block no one.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NAME = "agent.socket"
LONGEST_PACKET = 2048
_MOST_CONNECTIONS = 32
_PATIENCE_S = 2.0
_BACKLOG = 512
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class ControlSocket:
    """Answers requests in its own thread from ``start`` to ``stop``.

    ``answer`` takes the text of a request and returns that of the answer.
    """

    def __init__(self, directory: Path, answer: Callable[[str], str]) -> None:
        self.refused = 0
        self._directory, self._answer = directory, answer
        self._waiting: dict[socket.socket, float] = {}  # connections, oldest first, and when to drop them
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: no socket can be created in this directory.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with _reachable(self._directory) as path:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108 - of an agent that was killed: we hold the spool's lock
                listener.bind(path)
                os.chmod(path, 0o600)  # noqa: PTH101 - before it listens
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._ends, self._end = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._ends, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer pending requests; later ones find no socket."""
        if self._thread is None:
            return
        with contextlib.suppress(OSError):
            (self._directory / NAME).unlink()
        self._end.send(b"x")
        self._thread.join()
        self._thread = None
        for one in (self._listener, self._ends, self._end, *self._waiting):
            one.close()
        self._selector.close()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            patience = min(self._waiting.values()) - time.monotonic() if self._waiting else None
            for key, _ in self._selector.select(patience if patience is None else max(0.0, patience)):
                if key.fileobj is self._ends:
                    stopping = True
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._serve(key.fileobj)
            now = time.monotonic()
            for connection in [one for one, until in self._waiting.items() if until <= now]:
                self._give_up(connection)
        while self._accept():
            continue

    def _accept(self) -> bool:
        """Accept a connection and return whether there was one; its request has usually arrived already."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return False
        except OSError:  # it is gone, or descriptors ran out: closing connections frees some
            self._give_up_oldest()
            return False
        connection.setblocking(False)
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(packed)[1] not in (0, os.geteuid()):
            self.refused += 1
            connection.close()
            return True
        if len(self._waiting) >= _MOST_CONNECTIONS:
            self._give_up_oldest()
        self._selector.register(connection, selectors.EVENT_READ)
        self._waiting[connection] = time.monotonic() + _PATIENCE_S
        self._serve(connection)
        return True

    def _serve(self, connection: socket.socket) -> None:
        if connection not in self._waiting:  # dropped in the same round
            return
        try:
            request = connection.recv(LONGEST_PACKET + 1)
        except BlockingIOError:
            return
        except OSError:
            request = b""
        if request:
            with contextlib.suppress(OSError):  # the client is gone or does not read; its request is done
                connection.send(self._reply(request))
            self._forget(connection)
        else:
            self._give_up(connection)

    def _reply(self, request: bytes) -> bytes:
        if len(request) > LONGEST_PACKET:
            self.refused += 1
            return b"no: the request is too long"
        try:
            text = request.decode()
        except UnicodeDecodeError:
            self.refused += 1
            return b"no: the request is not UTF-8"
        return self._answer(text).encode("utf-8", "backslashreplace")

    def _give_up_oldest(self) -> None:
        for connection in [*self._waiting][:1]:
            self._give_up(connection)

    def _give_up(self, connection: socket.socket) -> None:
        self.refused += 1
        self._forget(connection)

    def _forget(self, connection: socket.socket) -> None:
        del self._waiting[connection]
        self._selector.unregister(connection)
        connection.close()


def ask(directory: Path, request: str, seconds: float = 5.0) -> str:
    """Ask the agent of the spool in ``directory``.

    Raises:
        OSError: no agent runs there, or it does not answer (this user).
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(seconds)
        with _reachable(directory) as path:
            connection.connect(path)
        connection.send(request.encode())
        answer = connection.recv(64 * LONGEST_PACKET).decode()
    if not answer:
        raise ConnectionResetError(f"the agent of {directory} closed the connection")
    return answer


@contextlib.contextmanager
def _reachable(directory: Path) -> Iterator[str]:
    """Yield a short path of the socket: an address holds at most 107 bytes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)
