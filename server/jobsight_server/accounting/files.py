"""Accounting files on disk: plain or gzip, growing, cut, replaced, renamed."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jobsight_server.accounting.chunks import LONGEST_LINE, PIECE_BYTES, TAIL_BYTES

_GZIP_MAGIC = b"\x1f\x8b"
_DAY = re.compile(r"[0-9]{8}(\.gz)?", re.ASCII)
# Enough before a position to include a whole truncated line there.
WINDOW_BYTES = LONGEST_LINE + TAIL_BYTES


class UnreadableError(OSError):
    """A file or directory that cannot be read; the message says why, without the path."""


def day_files(directory: Path) -> list[Path]:
    """The accounting files ``YYYYMMDD`` and ``YYYYMMDD.gz``, oldest first; other names are ignored.

    Raises:
        UnreadableError: the directory cannot be listed.
    """
    try:
        names = [entry.name for entry in os.scandir(directory)]
    except OSError as error:
        raise UnreadableError(f"directory: {error.strerror}") from error
    return [directory / name for name in sorted(names) if _DAY.fullmatch(name)]


def leads_out(path: Path, directory: Path) -> bool:
    """Whether ``path``, an entry of ``directory``, is a symbolic link that leads outside.

    The server may read files that the writer of the log may not: such a link would expose their lines.

    Raises:
        UnreadableError: the links form a loop.
    """
    try:
        return path.is_symlink() and not path.resolve().is_relative_to(directory.resolve())
    except (OSError, RuntimeError) as error:
        raise UnreadableError("file: symbolic links in a circle") from error


@dataclass(frozen=True, slots=True)
class Stat:
    """The data that shows, without opening a file, that it has not changed."""

    size: int
    text: str


def look(path: Path) -> Stat:
    """Size and identity of a regular file.

    Raises:
        UnreadableError: there is none.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise UnreadableError(f"file: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError("file: not a regular file")
    return Stat(found.st_size, f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}")


class Content:
    """The unpacked content of one file, read forward. Damage in a gzip file ends it; ``damage`` then describes it."""

    def __init__(self, path: Path) -> None:
        """Raises UnreadableError."""
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
        self.close()

    def close(self) -> None:
        self._raw.close()

    @property
    def raw_position(self) -> int:
        """How much of the file on disk has been read, in bytes, for progress."""
        return self._raw.tell()

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; b"" at the end and after damage."""
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

    def head(self) -> bytes:
        """The first bytes, for the fingerprint."""
        self._rewind()
        head = self._exactly(TAIL_BYTES)
        self._rewind()
        return head

    def grown_head(self) -> bytes:
        """The same of a plain file as it is now, without moving; b"" for a packed one, which does not grow."""
        return b"" if self.packed else os.pread(self._raw.fileno(), TAIL_BYTES, 0)

    def go_to(self, offset: int) -> bytes:
        """Moves to ``offset`` and returns up to ``WINDOW_BYTES`` bytes before it; fewer if the file ends before."""
        first = max(0, offset - WINDOW_BYTES)
        self._rewind()
        if not self.packed:
            self._stream.seek(first)
            return self._exactly(offset - first)
        skipped, kept = 0, b""
        while skipped < offset and (piece := self.read(min(PIECE_BYTES, offset - skipped))):
            skipped += len(piece)
            kept = (kept + piece)[-WINDOW_BYTES:]
        return kept if skipped == offset else b""

    def _rewind(self) -> None:
        self.damage = None
        self._raw.seek(0)
        if self.packed:
            self._stream = gzip.GzipFile(fileobj=self._raw)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (piece := self.read(size - len(found))):
            found += piece
        return found


class Fingerprint(NamedTuple):
    """Digests of a file's first bytes, and of these with the bytes before the position up to which it was read."""

    head: str
    content: str


def fingerprint(head: bytes, tail: bytes, offset: int) -> Fingerprint:
    """Shows, with ``offset``, whether content is still what was read: a digest of its beginning and of the end of
    that."""
    length = min(offset, TAIL_BYTES)
    return Fingerprint(_digest(head[:length]), _digest(head[:length] + tail[-length:] if length else b""))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
