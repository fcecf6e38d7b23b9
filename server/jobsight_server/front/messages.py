"""A request as read by the front end, and a response as bytes."""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import IO

_IN_MEMORY_BYTES = 64 * 1024  # of one body; a longer one goes to a temporary file


@dataclass(slots=True)
class Request:
    """One request. ``cut``: its body was not read completely, so the connection cannot be reused."""

    method: str = ""
    target: bytes = b""
    version: str = "1.1"
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: IO[bytes] = field(default_factory=io.BytesIO)
    declared: int | None = None
    received: int = 0
    keep_alive: bool = True
    cut: bool = False

    def expect_body(self) -> None:
        """Prepares for a body of the declared length, or of unknown length."""
        if self.declared is None or self.declared > _IN_MEMORY_BYTES:
            self.body = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed with the request


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """``status`` is code and phrase; ``headers`` need not name the length."""

    status: str
    headers: Sequence[tuple[str, str]]
    body: bytes


def error_answer(status: str, message: str, *headers: tuple[str, str]) -> HttpResponse:
    """The front end's own errors, in the form of the API's."""
    body = json.dumps({"error": message}).encode()
    return HttpResponse(status, [("Content-Type", "application/json"), ("Cache-Control", "no-store"), *headers], body)


class Renderer:
    """Writes responses as HTTP/1.1; caches the date of the current second."""

    def __init__(self) -> None:
        self._second, self._date = -1, b""

    def render(self, answer: HttpResponse, request: Request, *, close: bool) -> bytes:
        bodiless = answer.status[:1] == "1" or answer.status[:3] in {"204", "304"}
        lines = [f"HTTP/1.1 {answer.status}"]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if not bodiless and not any(name.lower() == "content-length" for name, _ in answer.headers):
            lines.append(f"Content-Length: {len(answer.body)}")
        if close:
            lines.append("Connection: close")
        elif request.version == "1.0":
            lines.append("Connection: keep-alive")
        head = "\r\n".join(lines).encode("latin-1", "replace") + self._date_line()
        return head if bodiless or request.method == "HEAD" else head + answer.body

    def _date_line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._date = f"\r\nDate: {formatdate(second, usegmt=True)}\r\nServer: jobsight\r\n\r\n".encode()
        return self._date
