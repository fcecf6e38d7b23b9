"""The stored workload of a simulation: Standard Workload Format, compressed, named by its content."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from jobsight_scheduler.workload.swf import Trace, found_instead, lines_of, parse_swf
from jobsight_server.errors import UserError

_PIECE_BYTES = 2**20
_LOOKED_AT_BYTES = 2**20
_LOOKED_AT_LINES = 5000
_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class KeptTrace:
    """``content`` is gzip; ``begin`` is parsed from its first lines: the header, and a job if there is any."""

    name: str
    digest: str
    content: bytes
    begin: Trace


def read_upload(stream: BinaryIO, name: str, limit_bytes: int) -> KeptTrace:
    """An uploaded trace, plain or gzip, read in pieces.

    Raises:
        UserError: it is longer than ``limit_bytes``, broken, or has no job at its beginning: anything else than a
            trace is not read further.
    """
    shown = "".join(c if c.isprintable() else "_" for c in name.rpartition("/")[2].rpartition("\\")[2])[:_NAME_LENGTH]
    shown = shown or "trace"
    packed = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    try:
        with _packer(shown) as (write, packer):
            for piece in _pieces(gzip.GzipFile(fileobj=stream) if packed else stream):
                begun = packer.length >= _LOOKED_AT_BYTES
                write(piece)
                if not begun and packer.length >= _LOOKED_AT_BYTES:
                    _require_job(packer.begin(), shown)
                if packer.length > limit_bytes:
                    raise UserError(
                        f"{shown} is longer than {limit_bytes:,} bytes unpacked: send a part of it, or use "
                        "`jobsight simulate`"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{shown}: the compressed file is broken ({error}); download it again") from error
    kept = packer.kept()
    _require_job(kept.begin, shown)
    return kept


def take_lines(lines: Iterator[str], name: str) -> KeptTrace:
    """A trace written by this program; ``lines`` end with a line end."""
    with _packer(name) as (write, packer):
        for line in lines:
            write(line.encode())
    return packer.kept()


def _require_job(begin: Trace, shown: str) -> None:
    if not len(begin):
        found = found_instead(begin)
        raise UserError(f"{shown} does not begin as the Standard Workload Format does: {found}")


class _Packer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.length = 0
        self.digest = hashlib.sha256()
        self.packed = io.BytesIO()
        self.head = bytearray()

    def take(self, piece: bytes) -> None:
        self.length += len(piece)
        self.digest.update(piece)
        self.head += piece[: _LOOKED_AT_BYTES - len(self.head)]

    def begin(self) -> Trace:
        """What the first lines say."""
        return parse_swf(islice(lines_of(io.BytesIO(self.head)), _LOOKED_AT_LINES))

    def kept(self) -> KeptTrace:
        return KeptTrace(self.name, self.digest.hexdigest(), self.packed.getvalue(), self.begin())


@contextmanager
def _packer(name: str) -> Iterator[tuple[Callable[[bytes], None], _Packer]]:
    packer = _Packer(name)
    with gzip.GzipFile(fileobj=packer.packed, mode="wb", compresslevel=6, mtime=0) as packed:

        def write(piece: bytes) -> None:
            packer.take(piece)
            packed.write(piece)

        yield write, packer


def _pieces(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece
