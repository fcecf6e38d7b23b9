"""Lines of a stream, and chunks of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from jobsight_server.accounting.files import PIECE_BYTES, TAIL_BYTES, Chunk, RawRecord

LONGEST_RECORD = 64 * 2**20
"""Longest record of a job with all of its steps, in bytes."""
LONGEST_ROW = 2**20
"""Longest line, or lines that form one record, in bytes."""
HEAD_BYTES = 2048
"""Bytes kept of a longer record."""


@dataclass(slots=True)
class ChunkBuilder:
    """Collects records, and bytes between them, in order; ``tail`` are the last bytes before them."""

    tail: bytes
    most_records: int
    _records: list[RawRecord] = field(default_factory=list)
    _frame_bytes: int = 0
    _record_bytes: int = 0

    def add(self, record: RawRecord, data: bytes) -> None:
        """Add a record; ``data`` are its bytes with the separator after it."""
        self._records.append(record)
        self._record_bytes += record.length
        self._pass(data)

    def skip(self, data: bytes) -> None:
        """Add bytes that belong to no record."""
        self._frame_bytes += len(data)
        self._pass(data)

    def drop(self, data: bytes) -> None:
        """Pass bytes of a record that is added later, without them."""
        self._pass(data)

    def full(self) -> Iterator[Chunk]:
        """Yield the chunk, if it is large enough."""
        if len(self._records) >= self.most_records or self._record_bytes >= 4 * PIECE_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Chunk]:
        """Yield the chunk, unless it is empty."""
        if self._records or self._frame_bytes:
            yield Chunk(tuple(self._records), self.tail, self._frame_bytes)
            self._records, self._frame_bytes, self._record_bytes = [], 0, 0

    def _pass(self, data: bytes) -> None:
        self.tail = (self.tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]


def lines_of(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; lines longer than a row may be in pieces."""
    held = b""
    while piece := read(PIECE_BYTES):
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(held) > LONGEST_ROW:
            yield held
            held = b""
    if held:
        yield held
