"""Posts batches to the collector over one kept connection (docs/operate/wire-format.md)."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import http.client

ACKNOWLEDGED = frozenset({"stored", "duplicate"})
_LONGEST_ANSWER = 64 * 1024


class TargetError(ValueError):
    """A server address or token file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Target:
    """The server's address, and the longest wait for it."""

    url: str
    token_file: Path
    ca_file: Path | None = None
    timeout_s: float = 15.0
    backoff_s: float = 1.0
    backoff_most_s: float = 300.0

    def pause_s(self, tries: int, rng: random.Random) -> float:
        """Return the wait after this many failures: doubled each time, up to half of it random."""
        longest = min(self.backoff_most_s, self.backoff_s * 2.0 ** min(tries, 20))
        return rng.uniform(longest / 2, longest)


@dataclass(frozen=True, slots=True)
class Reply:
    """The server's answer to a batch: HTTP status, ``status`` or ``error`` of its body, and seconds to wait."""

    code: int
    word: str
    wait_s: float | None

    def __str__(self) -> str:
        return f"{self.code} {self.word}".rstrip()


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

    def send(self, body: bytes) -> Reply:
        """Post one batch.

        Raises:
            OSError: the server cannot be reached or drops the connection.
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
                self.close()  # the server may have closed it meanwhile: retry on a new one
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

    def _post(self, connection: http.client.HTTPConnection, body: bytes, headers: dict[str, str]) -> Reply:
        from http.client import HTTPException

        try:
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            content = response.read(_LONGEST_ANSWER)
        except (HTTPException, ValueError) as error:
            raise ConnectionError(f"not a valid HTTP response: {error!r}") from error
        if not response.isclosed():  # longer than any answer of ours: the next answer would begin with the rest
            self.close()
        retry = response.getheader("Retry-After") or ""
        wait_s = float(retry) if retry.isascii() and retry.isdigit() else None
        return Reply(response.status, _word(content), wait_s)

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
        """Read the token for each batch, so that it can be replaced while the agent runs."""
        file = self._target.token_file
        try:
            token = file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise TargetError(f"token file {file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TargetError(f"token file {file}: {error}") from error
        if not token or not token.isprintable() or " " in token:
            raise TargetError(
                f"token file {file} contains no token; `jobsight token create --role agent --cluster NAME` creates one"
            )
        return token


def _word(content: bytes) -> str:
    """Return the answer's message, printable and short; empty if the answer is not ours."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    word = answer.get("status") or answer.get("error")
    return "".join(c if c.isprintable() else " " for c in word[:300]) if isinstance(word, str) else ""


def _load_http() -> None:
    """Import http.client without ssl, 4 MB that a plain connection does not need; ``Sender`` wraps the socket of a
    secure one itself."""
    if "ssl" in sys.modules or "http.client" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import http.client  # noqa: F401
    finally:
        del sys.modules["ssl"]
