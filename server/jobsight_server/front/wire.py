"""The transport as uvicorn's protocol sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Wire:
    """Sends header and body of a response with one system call; uvicorn writes them one after the other.

    ``closing`` is called before the transport is closed; if it returns True, it keeps the connection for a while.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, closing: Callable[[], bool]):
        self._transport, self._loop, self._keeps_open = transport, loop, closing
        self._parts: list[bytes] = []
        self._closed = False
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.get_extra_info: Callable[..., Any] = transport.get_extra_info
        self.waiting_bytes = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            if not self._transport.is_closing():
                self._transport.write(data)

    def close(self) -> None:
        self.flush()
        if self.is_closing():
            return
        self._closed = True
        if self._keeps_open():
            self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self) -> None:
        self.flush()
        self._closed = True
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()
