"""One query by HTTP to an untrusted server: its answer is bounded in bytes and in total time.

Redirects are not followed: they would take the token elsewhere. Compressed answers are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

_MOST_BYTES_OF_ERROR = 10_000


class NoAnswerError(Exception):
    """The server does not answer now, or not to us; it may later."""


class Answered(NamedTuple):
    """The answer; ``is_whole`` is False if it was longer than wanted."""

    status: int
    body: bytes
    is_whole: bool


def post(
    url: str, question: Mapping[str, str], headers: Mapping[str, str], timeout_s: float, most_bytes: int
) -> Answered:
    """Send ``question`` as a form; return only the beginning of an answer with a status other than 200.

    Raises:
        NoAnswerError: no whole answer within ``timeout_s``, or one that redirects or is compressed.
    """
    place = urlsplit(url)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=timeout_s)
    try:
        connection.connect()
    except (OSError, ValueError) as error:
        raise NoAnswerError(str(error) or type(error).__name__) from error
    # The connection's own timeout is for each piece, and a slow server may send any number of them.
    is_late = threading.Event()
    timer = threading.Timer(timeout_s, _end, (connection.sock, is_late))
    timer.daemon = True
    timer.start()
    late = NoAnswerError(f"no whole answer within {timeout_s:g} s")
    try:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Accept-Encoding": "identity"}
        connection.request("POST", place.path, urlencode(question).encode(), {**headers, **form})
        with connection.getresponse() as response:
            _check(response)
            body = response.read((most_bytes if response.status == 200 else _MOST_BYTES_OF_ERROR) + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise (late if is_late.is_set() else NoAnswerError(str(error) or type(error).__name__)) from error
    finally:
        timer.cancel()
        connection.close()
    if is_late.is_set():
        raise late
    return Answered(response.status, body[:most_bytes], len(body) <= most_bytes)


def _end(connected: socket, is_late: threading.Event) -> None:
    is_late.set()
    with suppress(OSError):  # it is closed by now
        connected.shutdown(SHUT_RDWR)


def _check(response: HTTPResponse) -> None:
    if 300 <= response.status < 400:
        place = response.getheader("Location", "no place")[:200]
        raise NoAnswerError(f"HTTP {response.status}: it redirects to {place!r}; redirects are not followed")
    encoding = response.getheader("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise NoAnswerError(f"it answers with Content-Encoding {encoding[:50]!r}, which was not asked for")
