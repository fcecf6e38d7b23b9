"""Accounting files on disk, plain or gzip, and any content in chunks of complete lines."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.storage.named_files import other_kind

Read = Callable[[int], bytes]
"""Returns up to this many bytes; b"" at the end."""

CUT = "cut off: the file ends within the line"
CUT_RECORD = "cut off: the file ends within the record"
LONGEST_LINE = 64 * 1024
PIECE_BYTES = 256 * 1024
# Bytes kept before a position, to recognise the file that was read up to there.
TAIL_BYTES = 4096
HEAD_BYTES = 2048
"""Bytes kept of a longer record."""
LONGEST_RECORD = 64 * 2**20
"""Longest record of a job with all of its steps, in bytes."""
LONGEST_ROW = 2**20
"""Longest line, or lines that form one record, in bytes."""
_GZIP_MAGIC = b"\x1f\x8b"


class UnreadableError(OSError):
    """A file, directory or command's output that cannot be read; the message says why, without the path.

    ``reason`` is one of a few texts, for counting; the message adds ``more``.
    """

    def __init__(self, reason: str, more: str = "") -> None:
        super().__init__(f"{reason}: {more}" if more else reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Stat:
    """Values that change with a file, without opening it."""

    size: int
    text: str


def look(path: Path) -> Stat:
    """Return the size and identity of a regular file.

    Raises:
        UnreadableError: there is no such file, or it is not a regular one.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise UnreadableError(f"file: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError("file: not a regular file", other_kind(path) or "")
    return Stat(found.st_size, f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}")


class Content:
    """The unpacked content of one file, read forward. Damage in a gzip file ends it; ``damage`` then describes it."""

    def __init__(self, path: Path) -> None:
        """Raise UnreadableError if there is no such regular file."""
        self.stat = look(path)
        self.damage: str | None = None
        self.path = path
        try:
            self._raw: BinaryIO = path.open("rb")
            self.packed = self._raw.read(2) == _GZIP_MAGIC
            self._raw.seek(0)
        except OSError as error:
            raise UnreadableError(f"file: {error.strerror}") from error
        self._stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=self._raw) if self.packed else self._raw

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    @property
    def raw_position(self) -> int:
        """Return the bytes read of the file on disk, for progress."""
        return self._raw.tell()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; b"" at the end and after damage."""
        if self.damage is not None:
            return b""
        try:
            # At most one step of unpacking at a time, so that damage costs only the step that hits it.
            return self._stream.read1(size) if isinstance(self._stream, gzip.GzipFile) else self._stream.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.damage = f"damaged gzip: {error}"
        except OSError as error:
            self.damage = f"file: {error.strerror}"
        return b""

    def beginning(self, size: int) -> bytes:
        """Return the first ``size`` bytes, or all if there are fewer; the position is the beginning afterwards."""
        self._rewind()
        found = exactly(self.read, size)
        self._rewind()
        return found

    def grown_head(self) -> bytes:
        """Return the same for a plain file as it is now, without moving; b"" for a compressed one: it does not grow."""
        return b"" if self.packed else os.pread(self._raw.fileno(), TAIL_BYTES, 0)

    def go_to(self, offset: int) -> bytes:
        """Move to ``offset`` and return up to ``TAIL_BYTES`` bytes before it; fewer if the file ends before."""
        first = max(0, offset - TAIL_BYTES)
        self._rewind()
        if not self.packed:
            self._stream.seek(first)
            return exactly(self.read, offset - first)
        skipped, kept = 0, b""
        for piece in self.until(offset):
            skipped += len(piece)
            kept = (kept + piece)[-TAIL_BYTES:]
        return kept if skipped == offset else b""

    def until(self, offset: float) -> Iterator[bytes]:
        """Yield the content before ``offset``, in pieces."""
        self._rewind()
        while offset > 0 and (piece := self.read(int(min(PIECE_BYTES, offset)))):
            offset -= len(piece)
            yield piece

    def _rewind(self) -> None:
        self.damage = None
        self._raw.seek(0)
        if self.packed:
            self._stream = gzip.GzipFile(fileobj=self._raw)


def exactly(read: Read, size: int) -> bytes:
    """Return the next ``size`` bytes, or all if there are fewer."""
    found = b""
    while len(found) < size and (piece := read(size - len(found))):
        found += piece
    return found


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record, of most logs a line without its end: ``data`` is only the beginning if it is ``too_long``.

    ``length`` counts its bytes in the file, including the separator after it; ``complete`` is False if the stream
    ended before that. ``damage``: why it is not a record, if the split of the file showed it.
    """

    data: bytes
    length: int
    complete: bool = True
    too_long: bool = False
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records; ``tail`` are the last bytes up to its end.

    ``frame_bytes``: its bytes that belong to no record, such as a header or the brackets around a list.
    """

    records: tuple[RawRecord, ...]
    tail: bytes
    frame_bytes: int = 0

    @property
    def length(self) -> int:
        """Return the number of its bytes in the file."""
        return sum(record.length for record in self.records) + self.frame_bytes


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
        self.drop(data)

    def skip(self, data: bytes) -> None:
        """Add bytes that belong to no record."""
        self._frame_bytes += len(data)
        self.drop(data)

    def drop(self, data: bytes) -> None:
        """Pass bytes, as of a record that is added later without them."""
        self.tail = (self.tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def full(self) -> Iterator[Chunk]:
        """Yield the chunk, if it is large enough."""
        if len(self._records) >= self.most_records or self._record_bytes >= 4 * PIECE_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Chunk]:
        """Yield the chunk, unless it is empty."""
        if self._records or self._frame_bytes:
            yield Chunk(tuple(self._records), self.tail, self._frame_bytes)
            self._records, self._frame_bytes, self._record_bytes = [], 0, 0


def lines_of(read: Read) -> Iterator[bytes]:
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


def chunks(read: Read, tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
    """Yield chunks of at most ``most_records`` lines, in bounded memory for any stream.

    ``tail`` are the bytes before the stream's first. A last line without line end is a chunk of its own.
    """
    built = ChunkBuilder(tail, most_records)
    head, dropped = b"", 0  # of a line that comes in pieces
    for line in lines_of(read):
        is_whole = line.endswith(b"\n")
        if not is_whole:
            yield from built.rest()
        if not is_whole and len(line) > LONGEST_ROW:
            head, dropped = head or line[:HEAD_BYTES], dropped + len(line)
            built.drop(line)
            continue
        length = dropped + len(line)
        too_long = length - is_whole > LONGEST_LINE
        data = (head or line[:HEAD_BYTES]) if too_long else line[: len(line) - is_whole]
        built.add(RawRecord(data, length, is_whole, too_long), line)
        head, dropped = b"", 0
        yield from built.full()
    if dropped:
        built.add(RawRecord(head, dropped, complete=False, too_long=True), b"")
    yield from built.rest()


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads the records of one file: ``split`` finds them in its bytes, ``event`` parses one.

    ``by_lines``: a record is a line, so that lines can be counted independently of the code that splits them.
    ``form``: the file's variant of the format; empty if there is only one. ``missing``: what the header lacks.
    ``ends``: whether a last record without a line end is whole, as far as its bytes show.
    ``resumed``: returns the reader of what follows pieces of the file from its beginning on, where that matters.
    """

    parse: Callable[[RawRecord], JobEvent]
    splitter: Callable[[Read, bytes, int], Iterator[Chunk]]
    form: str = ""
    by_lines: bool = False
    missing: str = ""
    ends: Callable[[bytes], object] = lambda _: False
    resumed: Callable[[Iterable[bytes]], RecordReader] | None = None

    def split(self, read: Read, tail: bytes = b"", most_records: int = 500) -> Iterator[Chunk]:
        """Yield chunks of records in order, in bounded memory for any stream.

        ``tail`` are the bytes before the stream's first; the stream begins where a record does.
        """
        return self.splitter(read, tail, most_records)

    def event(self, record: RawRecord) -> JobEvent:
        """Parse a record.

        Raises:
            AccountingError: it cannot be used, for the given reason.
        """
        if record.too_long:
            raise AccountingError(f"longer than {LONGEST_LINE if self.by_lines else LONGEST_RECORD} bytes")
        is_cut = not record.complete and (record.damage is not None or not self.ends(record.data))
        try:
            if is_cut or record.damage is not None:
                raise AccountingError(record.damage or "")
            return self.parse(record)
        except AccountingError:
            if record.complete or not is_cut:
                raise
            raise AccountingError(CUT if self.by_lines else CUT_RECORD) from None
