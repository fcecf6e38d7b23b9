"""The read position of each accounting file, and where to resume after it grew or was cut, replaced, packed or renamed.

A fingerprint of its first bytes and of the bytes before the read position identifies a file.
The result of ``stat`` when the whole file had been read is stored with it, so that an unchanged file is not opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

import msgspec
from sqlalchemy import Connection, delete, insert, select

from jobsight_server.accounting.files import TAIL_BYTES, Chunk, Content
from jobsight_server.storage.schema import accounting_files

_decode = msgspec.json.Decoder(list[tuple[str, str, int]]).decode


def fingerprint(head: bytes, tail: bytes, offset: int) -> tuple[str, str]:
    """Return digests of a file's first bytes, and of these with the bytes before ``offset``: they show whether the
    content is the same."""
    length = min(offset, TAIL_BYTES)
    return _digest(head[:length]), _digest(head[:length] + tail[-length:] if length else b"")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The position up to which a file was read: ``offset`` in unpacked bytes, ``lines`` before it.

    The digests are of ``fingerprint``. ``stat`` is empty unless the whole file was read. ``counts`` is the file's part
    of the event counts.
    """

    path: str
    head_digest: str = ""
    content_digest: str = ""
    stat: str = ""
    offset: int = 0
    lines: int = 0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    log_format: str = ""


def positions(connection: Connection, cluster: str, path: str | None = None) -> dict[str, LogPosition]:
    """Return the positions in the cluster's files, or in one of them, by path."""
    query = select(accounting_files).where(accounting_files.c.cluster == cluster)
    if path is not None:
        query = query.where(accounting_files.c.path == path)
    names = [each.name for each in fields(LogPosition)]
    rows = ({name: row[name] for name in names} for row in connection.execute(query).mappings())
    return {
        row["path"]: LogPosition(**{**row, "counts": {(name, label): n for name, label, n in _decode(row["counts"])}})
        for row in rows
    }


def set_position(connection: Connection, cluster: str, position: LogPosition, now: float) -> None:
    """Store the position in the caller's transaction."""
    counts = msgspec.json.encode([(*key, n) for key, n in sorted(position.counts.items())]).decode()
    connection.execute(delete(accounting_files).filter_by(cluster=cluster, path=position.path))
    row = {**asdict(position), "cluster": cluster, "updated": now, "counts": counts}
    connection.execute(insert(accounting_files).values(row))


def bytes_before(content: Content, head: bytes, position: LogPosition) -> bytes | None:
    """Return the bytes before the position, which ``content`` is at afterwards; None if another file was read there.

    ``content`` begins with ``head``.
    """
    length = min(position.offset, TAIL_BYTES)
    if length == 0 or length > len(head) or (not content.packed and content.stat.size < position.offset):
        return None
    if position.head_digest != _digest(head[:length]):  # most other files already differ at the beginning
        return None
    before = content.go_to(position.offset)
    _, content_digest = fingerprint(head, before, position.offset)
    return before if content_digest == position.content_digest else None


@dataclass(slots=True)
class FileProgress:
    """The progress in a file. ``expected`` is the position that the database should have."""

    name: str
    head: bytes
    expected: LogPosition | None
    offset: int
    lines: int
    tail: bytes
    read_again: bool
    counts: dict[tuple[str, str], int]
    log_format: str = ""

    def count(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add to the file's part of the event counts."""
        for key, n in counts.items():
            self.counts[key] = self.counts.get(key, 0) + n

    def advance(self, chunk: Chunk, content: Content) -> None:
        self.offset += chunk.length
        self.lines += len(chunk.records)
        self.tail = chunk.tail
        if len(self.head) < min(self.offset, TAIL_BYTES):
            self.head = content.grown_head() or self.head  # it has grown since it was opened

    def position(self, stat: str) -> LogPosition:
        digests = fingerprint(self.head, self.tail, self.offset)
        return LogPosition(self.name, *digests, stat, self.offset, self.lines, dict(self.counts), self.log_format)


def find_place(name: str, content: Content, own: LogPosition | None, known: dict[str, LogPosition]) -> FileProgress:
    """Return where to continue in ``content``, the file of this name, already read up to ``own``; move there.

    Without ``own``, the content may have been read under another name: the farthest position counts. A file with other
    content is read from its beginning.
    """
    head = content.beginning(TAIL_BYTES)
    candidates = [own] if own else sorted(known.values(), key=lambda other: -other.offset)
    befores = ((one, bytes_before(content, head, one)) for one in candidates)
    source, before = next((found for found in befores if found[1] is not None), (None, None))
    counts = {} if own is None else dict(own.counts)
    if source is None or before is None:
        content.go_to(0)
        return FileProgress(name, head, own, 0, 0, b"", own is not None and own.offset > 0, counts)
    return FileProgress(name, head, own, source.offset, source.lines, before, False, counts)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
