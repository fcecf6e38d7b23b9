"""The workload of a simulation, as it is kept: Standard Workload Format, compressed, named by its content."""

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

from jobsight_scheduler.workload.swf import Trace, parse_swf
from jobsight_server.errors import UserError

_PIECE_BYTES = 2**20
_LOOKED_AT_LINES = 5000
_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class KeptTrace:
    """``content`` is gzip; ``begin`` is what its first lines say: the header, and a job if there is any."""

    name: str
    digest: str
    content: bytes
    begin: Trace


def take_upload(stream: BinaryIO, name: str, limit_bytes: int) -> KeptTrace:
    """A trace that somebody sends, plain or gzip, read in pieces.

    Raises:
        UserError: it is longer than ``limit_bytes``, broken, or its first 5,000 lines hold no job.
    """
    shown = "".join(c if c.isprintable() else "_" for c in name.rpartition("/")[2].rpartition("\\")[2])[:_NAME_LENGTH]
    shown = shown or "trace"
    packed = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    try:
        with _packer(shown) as (write, packer):
            for piece in _pieces(gzip.GzipFile(fileobj=stream) if packed else stream):
                write(piece)
                if packer.length > limit_bytes:
                    raise UserError(
                        f"{shown} is longer than {limit_bytes:,} bytes unpacked: send a part of it, or raise the "
                        "setting simulation_trace_bytes"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{shown}: the compressed file is broken ({error}); fetch it anew") from error
    kept = packer.kept()
    if not len(kept.begin):
        found = ", ".join(f"{count} lines {reason}" for reason, count in kept.begin.repairs.items()) or "no lines"
        raise UserError(f"{shown} does not begin as the Standard Workload Format does: {found}")
    return kept


def take_lines(lines: Iterator[str], name: str) -> KeptTrace:
    """A trace that this program writes; ``lines`` end with a line end."""
    with _packer(name) as (write, packer):
        for line in lines:
            write(line.encode())
    return packer.kept()


class _Packer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.length = 0
        self.digest = hashlib.sha256()
        self.packed = io.BytesIO()

    def kept(self) -> KeptTrace:
        self.packed.seek(0)
        with gzip.open(self.packed) as lines:
            begin = parse_swf(line.decode("utf-8", "replace") for line in islice(lines, _LOOKED_AT_LINES))
        return KeptTrace(self.name, self.digest.hexdigest(), self.packed.getvalue(), begin)


@contextmanager
def _packer(name: str) -> Iterator[tuple[Callable[[bytes], None], _Packer]]:
    packer = _Packer(name)
    with gzip.GzipFile(fileobj=packer.packed, mode="wb", compresslevel=6, mtime=0) as packed:

        def write(piece: bytes) -> None:
            packer.length += len(piece)
            packer.digest.update(piece)
            packed.write(piece)

        yield write, packer


def _pieces(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while piece := stream.read(_PIECE_BYTES):
        yield piece
