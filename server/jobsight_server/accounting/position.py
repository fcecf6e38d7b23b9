"""The read position of each accounting file, and where to resume after it grew or was cut, replaced, packed or renamed.

A fingerprint of its first bytes and of the bytes before the read position identifies a file.
The result of ``stat`` when the whole file had been read is stored with it, so that an unchanged file is not opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select, text

from jobsight_server.accounting.files import TAIL_BYTES, Chunk, Content
from jobsight_server.storage.schema import accounting_files

_SET = text(
    'INSERT INTO accounting_files (cluster, path, head_digest, content_digest, stat, "offset", lines, updated, counts) '
    "VALUES (:cluster, :path, :head_digest, :content_digest, :stat, :offset, :lines, :updated, :counts) "
    "ON CONFLICT (cluster, path) DO UPDATE SET head_digest = excluded.head_digest, "
    "content_digest = excluded.content_digest, stat = excluded.stat, "
    '"offset" = excluded."offset", lines = excluded.lines, updated = excluded.updated, counts = excluded.counts'
)

_decode = msgspec.json.Decoder(list[tuple[str, str, int]]).decode


class Fingerprint(NamedTuple):
    """Digests of a file's first bytes, and of these with the bytes before the read position."""

    head: str
    content: str


def fingerprint(head: bytes, tail: bytes, offset: int) -> Fingerprint:
    """Return a digest of content's first bytes and of the last ones read: with ``offset``, it shows whether the
    content is the same."""
    length = min(offset, TAIL_BYTES)
    return Fingerprint(_digest(head[:length]), _digest(head[:length] + tail[-length:] if length else b""))


@dataclass(frozen=True, slots=True)
class Position:
    """The position up to which a file was read: ``offset`` in unpacked bytes, ``lines`` before it.

    ``stat`` is empty unless the whole file was read. ``counts`` is the file's part of the event counts.
    """

    path: str
    fingerprint: Fingerprint
    stat: str
    offset: int
    lines: int
    counts: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Resumption:
    """The position to continue from. ``before`` are the bytes that end there; ``source`` is the stored position."""

    offset: int
    lines: int
    before: bytes
    source: Position | None


def positions(connection: Connection, cluster: str, path: str | None = None) -> dict[str, Position]:
    """Return the positions in the cluster's files, or in one of them, by path."""
    query = select(accounting_files).where(accounting_files.c.cluster == cluster)
    if path is not None:
        query = query.where(accounting_files.c.path == path)
    found = {}
    for row in connection.execute(query).mappings():
        known_by = Fingerprint(row["head_digest"], row["content_digest"])
        counts = {(name, label): n for name, label, n in _decode(row["counts"])}
        found[row["path"]] = Position(row["path"], known_by, row["stat"], row["offset"], row["lines"], counts)
    return found


def set_position(connection: Connection, cluster: str, position: Position, now: float) -> None:
    """Store the position in the caller's transaction."""
    row = {
        "cluster": cluster,
        "path": position.path,
        "head_digest": position.fingerprint.head,
        "content_digest": position.fingerprint.content,
        "stat": position.stat,
        "offset": position.offset,
        "lines": position.lines,
        "updated": now,
        "counts": msgspec.json.encode([(*key, n) for key, n in sorted(position.counts.items())]).decode(),
    }
    connection.execute(_SET, row)


def resume(content: Content, head: bytes, own: Position | None, others: Iterable[Position]) -> Resumption:
    """Return where to continue in ``content``, which begins with ``head``; its position is there afterwards.

    ``own`` is the position of this path. Without one, the content may have been read under another name: the
    farthest position counts. A file with other content is read from its beginning.
    """
    candidates: Mapping[Fingerprint, Position] = {} if own is None else {own.fingerprint: own}
    if own is None:
        candidates = {other.fingerprint: other for other in sorted(others, key=lambda other: other.offset)}
    heads: dict[int, str] = {}
    for candidate in sorted(candidates.values(), key=lambda one: -one.offset):
        length = min(candidate.offset, TAIL_BYTES)
        if length == 0 or length > len(head) or (not content.packed and content.stat.size < candidate.offset):
            continue
        # Most other files already differ at the beginning.
        if length not in heads:
            heads[length] = fingerprint(head, b"", length).head
        if candidate.fingerprint.head != heads[length]:
            continue
        before = content.go_to(candidate.offset)
        if fingerprint(head, before, candidate.offset) == candidate.fingerprint:
            return Resumption(candidate.offset, candidate.lines, before, candidate)
    content.go_to(0)
    return Resumption(0, 0, b"", None)


@dataclass(slots=True)
class FileProgress:
    """The progress in a file. ``expected`` is the position that the database should have.

    ``cut`` is the position to continue from if a line was rejected there as truncated.
    """

    name: str
    head: bytes
    expected: Position | None
    offset: int
    lines: int
    tail: bytes
    cut: Position | None
    read_again: bool
    counts: dict[tuple[str, str], int]

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

    def position(self, stat: str) -> Position:
        known_by = fingerprint(self.head, self.tail, self.offset)
        return Position(self.name, known_by, stat, self.offset, self.lines, dict(self.counts))


def find_place(name: str, content: Content, own: Position | None, known: dict[str, Position]) -> FileProgress:
    """Return where to read on in ``content``, the file of this name, already read up to ``own``."""
    head = content.head()
    at = resume(content, head, own, known.values())
    cut = at.source if at.source is not None and not at.before.endswith(b"\n") else None
    again = own is not None and own.offset > 0 and at.source is None
    counts = {} if own is None else dict(own.counts)
    return FileProgress(name, head, own, at.offset, at.lines, at.before, cut, again, counts)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
