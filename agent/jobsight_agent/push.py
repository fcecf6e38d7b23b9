"""Sends closed batches to the collector, oldest first, beside the loop that reads."""

from __future__ import annotations

import json
import random
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jobsight_agent.spool import Spool

if TYPE_CHECKING:
    import http.client

_FOR_GOOD = frozenset({400, 413, 422})  # the server will never take this batch
_ACKNOWLEDGED = frozenset({"stored", "duplicate"})
_LONGEST_ANSWER = 64 * 1024
_LONGEST_PAUSE_S = 3600.0  # whatever the server asks for


class TargetError(ValueError):
    """A server address or token file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to send, and how long to wait."""

    url: str
    token_file: Path
    ca_file: Path | None = None
    timeout_s: float = 15.0
    backoff_s: float = 1.0
    backoff_most_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to a batch: its HTTP status, ``status`` or ``error`` of its body, and the seconds that it
    asks to wait."""

    code: int
    word: str
    wait_s: float | None


class Sender:
    """Sends over one kept connection."""

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise TargetError(f"server {target.url!r}: give http://HOST:PORT or https://HOST[:PORT]")
        self._target, self._host, self._port = target, parts.hostname, parts.port
        self._path = parts.path.rstrip("/") + "/api/v1/samples"
        self._secure = parts.scheme == "https"
        self._connection: http.client.HTTPConnection | None = None
        _load_http()
        self._token()

    def send(self, body: bytes) -> Answer:
        """Posts one batch.

        Raises:
            OSError: the server cannot be reached or breaks off.
            TargetError: the token file cannot be used.
        """
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        if self._connection is not None:
            try:
                return self._post(self._connection, body, headers)
            except OSError:
                self.close()  # the server may have closed it in the meantime: once more on a new one
        self._connection = self._connect()
        try:
            return self._post(self._connection, body, headers)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, connection: http.client.HTTPConnection, body: bytes, headers: dict[str, str]) -> Answer:
        from http.client import HTTPException

        try:
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            content = response.read(_LONGEST_ANSWER)
        except (HTTPException, ValueError) as error:
            raise ConnectionError(f"no proper HTTP answer: {error!r}") from error
        if not response.isclosed():  # a longer answer than ours ever is: the rest would be taken for the next one
            self.close()
        retry = response.getheader("Retry-After") or ""
        wait_s = float(retry) if retry.isascii() and retry.isdigit() else None
        return Answer(response.status, _word(content), wait_s)

    def _connect(self) -> http.client.HTTPConnection:
        from http.client import HTTPConnection

        timeout_s = self._target.timeout_s
        if not self._secure:
            return HTTPConnection(self._host, self._port, timeout=timeout_s)
        import ssl

        context = ssl.create_default_context(cafile=self._target.ca_file)
        connection = HTTPConnection(self._host, self._port or 443, timeout=timeout_s)
        connection.connect()
        try:
            connection.sock = context.wrap_socket(connection.sock, server_hostname=self._host)
        except (OSError, ValueError):
            connection.close()
            raise
        return connection

    def _token(self) -> str:
        """Read for each batch, so that a token can be replaced while the agent runs."""
        file = self._target.token_file
        try:
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TargetError(f"token file {file}: {error}") from error
        if not token or not token.isprintable() or " " in token:
            raise TargetError(
                f"token file {file} holds no token; `jobsight token create --role agent --cluster NAME` makes one"
            )
        return token


class Pusher:
    """The thread that sends. ``accepted`` and ``refused`` count batches, ``failures`` tries."""

    def __init__(self, spool: Spool, target: Target, spool_lock: threading.Lock, rng: random.Random) -> None:
        self.failures = 0
        self.accepted = 0
        self.refused = 0
        self.last_error: str | None = None
        self._spool, self._target, self._lock, self._rng = spool, target, spool_lock, rng
        self._sender = Sender(target)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    def finish(self, seconds: float) -> None:
        """Sends what is there without waiting between tries, for at most ``seconds``; the rest stays in the spool."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        tries = 0
        while True:
            last_try = self._stopping.is_set()
            try:
                pause = self._send_oldest(tries)
            except OSError as error:  # the spool's disk
                self.last_error = f"spool: {error}"
                pause = self._pause_s(tries)
            if pause is None:
                tries = 0
                continue
            tries += 1
            if last_try:
                break
            if pause > 0:
                self._stopping.wait(pause)
            else:
                tries = 0
                self._wake.wait()
                self._wake.clear()
        self._sender.close()

    def _send_oldest(self, tries: int) -> float | None:
        """Sends one batch; None when it is done with, else the seconds to wait: 0 for there being none to send."""
        with self._lock:
            batch = self._spool.oldest()
        if batch is None:
            return 0.0
        number, body = batch
        try:
            answer = self._sender.send(body)
        except (OSError, ValueError) as error:
            self.last_error = f"{self._target.url}: {error}"
            self.failures += 1
            return self._pause_s(tries)
        stored = answer.code == 200 and answer.word in _ACKNOWLEDGED
        if not stored and answer.code not in _FOR_GOOD:
            self.last_error = f"{self._target.url} answered {answer.code} {answer.word}".rstrip()
            self.failures += 1
            return max(min(answer.wait_s or 0.0, _LONGEST_PAUSE_S), self._pause_s(tries))
        if stored:
            self.accepted += 1
            self.last_error = None
        else:
            self.refused += 1
            self.last_error = f"the server refused batch {number} for good: {answer.code} {answer.word}".rstrip()
        with self._lock:
            self._spool.remove(number)
        return None

    def _pause_s(self, tries: int) -> float:
        longest = min(self._target.backoff_most_s, self._target.backoff_s * 2.0 ** min(tries, 20))
        return self._rng.uniform(longest / 2, longest)


def _word(content: bytes) -> str:
    """What the answer says, printable and short; empty where it is not ours."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    word = answer.get("status") or answer.get("error")
    return "".join(c if c.isprintable() else " " for c in word[:300]) if isinstance(word, str) else ""


def _load_http() -> None:
    """Imports http.client without ssl, which it would import and which is 4 MB that a plain connection does not need;
    `Sender` wraps the socket of a secure one itself."""
    if "ssl" in sys.modules or "http.client" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import http.client  # noqa: F401
    finally:
        del sys.modules["ssl"]
