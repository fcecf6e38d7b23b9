"""Removes the ``Content-Encoding`` of a batch, within a limit for all batches together.

A gzip stream ends with the length of its content. That length is reserved before anything is unpacked; a longer stream
lied or is damaged, and is then inspected only piece by piece until it is clear which.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from jobsight_server.ingest.wire import (
    MAX_INTERFACES,
    MAX_JOB_READINGS,
    MAX_JOBS,
    MAX_MARKS,
    MAX_READINGS,
    TooLargeError,
    WireError,
)

_TAKEN_BYTES = 16 * 1024
_GIVEN_BYTES = 256 * 1024
_SMALLEST_GZIP = 18
_DECODED_FACTOR = 10
"""A batch takes up to this many times its length: itself, and its numbers as objects."""

# As many as in a batch of the largest allowed shape, and some for punctuation in names.
_MOST_OF = {
    b",": MAX_READINGS * (2 * MAX_INTERFACES + 3) + 3 * MAX_MARKS + 6 * MAX_JOB_READINGS + 8 * MAX_JOBS + 10_000,
    b":": 50_000 + 8 * MAX_JOBS,
    b"[": 20_000 + 6 * MAX_JOBS,
}


class BudgetError(Exception):
    """Others used the whole budget for too long; the agent retries later."""


class UnpackingBudget:
    """Memory in bytes that batches may use at a time, granted in order of request."""

    def __init__(self, total_bytes: int, patience_s: float = 10.0) -> None:
        self._total = self._free = total_bytes
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._line: deque[object] = deque()

    @contextmanager
    def batch(self, unpacked_bytes: int) -> Iterator[None]:
        """Reserve the memory for a batch of this length while the block runs; at most the whole budget.

        Raises:
            BudgetError: it did not become free in time.
        """
        self._take(self._wanted(unpacked_bytes))
        try:
            yield
        finally:
            self.give_back(unpacked_bytes)

    def take_at_once(self, unpacked_bytes: int) -> bool:
        """Reserve the memory for a batch of this length until ``give_back``, if nothing waits and it is free."""
        wanted = self._wanted(unpacked_bytes)
        with self._changed:
            if self._line or self._free < wanted:
                return False
            self._free -= wanted
            return True

    def give_back(self, unpacked_bytes: int) -> None:
        """End the reservation of ``take_at_once``."""
        with self._changed:
            self._free += self._wanted(unpacked_bytes)
            self._changed.notify_all()

    def _wanted(self, unpacked_bytes: int) -> int:
        return min(_DECODED_FACTOR * unpacked_bytes, self._total)

    def _take(self, wanted: int) -> None:
        me, until = object(), time.monotonic() + self._patience_s
        with self._changed:
            self._line.append(me)
            try:
                while self._line[0] is not me or self._free < wanted:
                    if not self._changed.wait(until - time.monotonic()) and time.monotonic() >= until:
                        raise BudgetError(
                            f"other batches use all {self._total} bytes that unpacking may use; try again later"
                        )
                self._free -= wanted
            finally:
                self._line.remove(me)
                self._changed.notify_all()


def stated_length(body: bytes, encoding: str, max_unpacked_bytes: int) -> int:
    """Return the unpacked length that ``body`` states; 0 if that is more than allowed."""
    if encoding != "gzip":
        return len(body)
    length = int.from_bytes(body[-4:], "little") if len(body) >= _SMALLEST_GZIP else 0
    return length if length <= max_unpacked_bytes else 0


def unpack(body: bytes, encoding: str, max_unpacked_bytes: int) -> bytes | bytearray:
    """Return ``body`` without its ``Content-Encoding``.

    Raises:
        WireError: an encoding other than gzip or identity, or damaged gzip.
        TooLargeError: the result exceeds ``max_unpacked_bytes``; no more than ``stated_length`` is ever held.
    """
    if encoding in {"", "identity"}:
        unpacked: bytes | bytearray = body
        if len(body) > max_unpacked_bytes:
            raise TooLargeError(f"the batch has more than {max_unpacked_bytes} bytes")
    elif encoding == "gzip":
        unpacked = _inflate(body, stated_length(body, encoding, max_unpacked_bytes), max_unpacked_bytes)
    else:
        raise WireError(f"Content-Encoding {encoding[:50]!r} is not supported; use gzip or none")
    return unpacked


def check_size(unpacked: bytes | bytearray) -> None:
    """Check before decoding: a payload with more values than any batch would take much memory as objects.

    Raises:
        WireError: the payload has more values.
    """
    for mark, most in _MOST_OF.items():
        if unpacked.count(mark) > most:
            raise WireError(f"there are more than {most} {mark.decode()!r} in it: no batch has that many values")


def _inflate(body: bytes, stated: int, max_unpacked_bytes: int) -> bytearray:
    unpacked, length = bytearray(), 0
    for piece in _pieces(body):
        length += len(piece)
        if length > max_unpacked_bytes:
            raise TooLargeError(f"the batch unpacks to more than {max_unpacked_bytes} bytes")
        if length <= stated:
            unpacked += piece
    return unpacked


def _pieces(body: bytes) -> Iterator[bytes]:
    """Yield the content of a gzip stream, piece by piece; complete if the end is reached."""
    inflater = zlib.decompressobj(wbits=31)
    view, taken = memoryview(body), 0
    try:
        while taken < len(body) and not inflater.eof:
            rest = view[taken : taken + _TAKEN_BYTES]
            taken += len(rest)
            while rest and not inflater.eof:
                yield inflater.decompress(rest, _GIVEN_BYTES)
                rest = memoryview(inflater.unconsumed_tail)
        while not inflater.eof and (piece := inflater.decompress(b"", _GIVEN_BYTES)):
            yield piece
    except zlib.error as error:
        raise WireError(f"damaged gzip: {error}") from error
    if not inflater.eof:
        raise WireError(f"truncated gzip stream ({len(body)} bytes)")
    following = len(inflater.unused_data) + len(body) - taken
    if following:
        raise WireError(f"{following} bytes follow the end of the gzip stream")
