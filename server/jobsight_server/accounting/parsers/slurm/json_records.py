"""The records in ``"jobs": [...]`` of a JSON document, one by one, without holding the document.

Two records are separated by ``}, {`` and the name of a record's first field. Within a text, JSON escapes the quotes of
such a name, so users' texts cannot look like that. The bytes in between must be one whole JSON object; if not, the
whole objects among them are kept, and only the rest is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import msgspec

from jobsight_server.accounting.files import PIECE_BYTES, Chunk, RawRecord
from jobsight_server.accounting.parsers.slurm.pieces import HEAD_BYTES, LONGEST_RECORD, ChunkBuilder
from jobsight_server.accounting.text import text_of

_FIRST_FIELD = re.compile(rb'"jobs"\s*:\s*\[\s*\{\s*("[A-Za-z_]{1,60}")\s*:')
_CLUSTER = re.compile(rb'"cluster"\s*:\s*"([^"\\]+)"')
_END_OF_LIST = re.compile(rb"\s*\]")
# The end of a complete document.
_END = re.compile(rb"\]\s*(?:,\s*\"[a-z]+\".*)?\}\s*\Z", re.DOTALL)
_SEPARATOR = re.compile(rb"\s*,?\s*")
_SEPARATOR_BYTES = 256
_MOST_ATTEMPTS = 1000

_is_object = msgspec.json.Decoder(msgspec.Raw).decode
_whole = json.JSONDecoder().raw_decode


def first_field(beginning: bytes) -> bytes:
    """Return the name of the first field of a record, in quotes, from the beginning of the file."""
    match = _FIRST_FIELD.search(beginning)
    return b'"account"' if match is None else match[1]


def cluster_of_first(beginning: bytes) -> str | None:
    """Return Slurm's name of the cluster of the first record; None if it has none.

    The document around the records may name another: the one where sacct ran.
    """
    match = _FIRST_FIELD.search(beginning)
    named = None if match is None else _CLUSTER.search(beginning, match.end())
    return None if named is None else text_of(named[1])


class JsonRecords:
    """Splits documents whose records begin with the field ``name``, also several documents in a row."""

    def __init__(self, name: bytes) -> None:
        begin = rb"\{\s*" + re.escape(name) + rb"\s*:"
        self._begin = re.compile(begin)
        self._between = re.compile(rb"\}(\s*,\s*)(?=" + begin + rb")")
        # The list, or its first record if the text before it is damaged.
        self._list = re.compile(rb'"jobs"\s*:\s*\[\s*|\[\s*(?=' + begin + rb")")

    def split(self, read: Callable[[int], bytes], tail: bytes, most_records: int) -> Iterator[Chunk]:
        """Yield chunks of records; see ``RecordReader``."""
        built = ChunkBuilder(tail, most_records)
        held, head = b"", b""
        scanned = dropped = 0  # bytes of ``held`` without a separator, and of a record that is too long, before them
        in_list = bool(tail)
        while piece := _read(read, max(PIECE_BYTES, len(held))):
            held += piece
            if not in_list:
                match = self._list.search(held)
                keep = len(held) - _SEPARATOR_BYTES if match is None else match.end()
                built.skip(held[: max(keep, 0)])
                held, in_list = held[max(keep, 0) :], match is not None
                if not in_list:
                    continue
            begin = 0
            for match in self._between.finditer(held, scanned):
                data, length = held[begin : match.start() + 1], match.end() - begin
                if head:
                    built.add(RawRecord(head, dropped + length, too_long=True), held[begin : match.end()])
                else:
                    self._add(data, held[begin : match.end()], built)
                begin, head, dropped = match.end(), b"", 0
                yield from built.full()
            held = held[begin:]
            if len(held) > LONGEST_RECORD:
                yield from built.rest()
                excess = len(held) - _SEPARATOR_BYTES
                head = head or held[:HEAD_BYTES]
                dropped += excess
                built.drop(held[:excess])
                held = held[excess:]
            scanned = max(0, len(held) - _SEPARATOR_BYTES)
        if head:
            built.add(RawRecord(head, dropped + len(held), too_long=True), held)
        elif not in_list:
            built.skip(held)
        else:
            self._salvage(held, built, at_end=True)
        yield from built.rest()

    def _add(self, data: bytes, with_separator: bytes, built: ChunkBuilder) -> None:
        try:
            _is_object(data)
        except msgspec.DecodeError:
            self._salvage(with_separator, built, at_end=False)
        else:
            built.add(RawRecord(data, len(with_separator)), with_separator)

    def _salvage(self, data: bytes, built: ChunkBuilder, at_end: bool) -> None:
        """Add the complete records in ``data``, and the bytes between them as damaged ones."""
        text = data.decode("latin-1")  # a character is a byte
        done = 0
        for attempt, match in enumerate(self._begin.finditer(data)):
            start = match.start()
            if attempt == _MOST_ATTEMPTS:
                break
            if start < done:
                continue
            try:
                found, end = _whole(text, start)
            except (ValueError, RecursionError):
                continue
            if "job_id" in found:
                self._leave(data[done:start], built)
                after = _SEPARATOR.match(data, end)
                done = end if after is None else after.end()
                built.add(RawRecord(data[start:end], done - start), data[start:done])
        self._leave(data[done:], built, at_end)

    def _leave(self, data: bytes, built: ChunkBuilder, at_end: bool = False) -> None:
        """Add bytes that are no complete record: the end of a document, or a damaged record."""
        if not data.strip(b" \t\r\n,") or (_END_OF_LIST.match(data) and self._between.search(data) is None):
            built.skip(data)
            return
        cut = at_end and _END.search(data) is None
        built.add(RawRecord(data, len(data), complete=not cut, damage="not JSON"), data)


def _read(read: Callable[[int], bytes], size: int) -> bytes:
    """Return ``size`` bytes, or those left; the buffer grows by doubling, even if pieces are small."""
    found: list[bytes] = []
    while size > 0 and (piece := read(min(size, PIECE_BYTES))):
        found.append(piece)
        size -= len(piece)
    return b"".join(found)
