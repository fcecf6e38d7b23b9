"""Cuts a stream of bytes into chunks of complete lines, whatever its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 64 * 1024
PIECE_BYTES = 256 * 1024
# Bytes kept before a position, to recognise whether a file is still the one that was read up to there.
TAIL_BYTES = 4096
# Bytes kept of a line that is too long.
_HEAD_BYTES = 2048


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line without its end: ``data`` is only the beginning if it is ``too_long``.

    ``length`` counts its bytes in the file with the line end; ``complete`` is False if the stream ended before it.
    """

    data: bytes
    length: int
    complete: bool = True
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines; ``tail`` are the last bytes up to the end of the last one."""

    lines: tuple[RawLine, ...]
    tail: bytes


def chunks(
    read: Callable[[int], bytes], tail: bytes = b"", most_lines: int = 500, most_bytes: int = PIECE_BYTES
) -> Iterator[Chunk]:
    """Chunks of at most ``most_lines`` lines and about ``most_bytes``; memory is bounded whatever the stream contains.

    ``read(n)`` gives up to n bytes, b"" at the end. ``tail`` are the bytes before the stream's first. A last line
    without line end comes as a chunk of its own.
    """
    # Of the line that is not complete yet: its last bytes, how many more there were, and its first ones.
    held, dropped, head = b"", 0, b""
    while piece := read(PIECE_BYTES):
        data = held + piece
        lines: list[RawLine] = []
        begin = chunk_begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            lines.append(_line(data[begin:end], head, dropped, end - begin + 1))
            dropped, head = 0, b""
            begin = end + 1
            if len(lines) >= most_lines or begin - chunk_begin >= most_bytes:
                tail = (tail + data[chunk_begin:begin])[-TAIL_BYTES:]
                yield Chunk(tuple(lines), tail)
                lines, chunk_begin = [], begin
        if lines:
            tail = (tail + data[chunk_begin:begin])[-TAIL_BYTES:]
            yield Chunk(tuple(lines), tail)
        held = data[begin:]
        if len(held) > LONGEST_LINE:
            # The rest is only counted and kept as tail; the line is rejected in any case.
            excess = len(held) - LONGEST_LINE
            head = head or held[:_HEAD_BYTES]
            dropped += excess
            tail, held = (tail + held[:excess])[-TAIL_BYTES:], held[excess:]
    if held or dropped:
        line = _line(held, head, dropped, len(held))
        yield Chunk((RawLine(line.data, line.length, False, line.too_long),), (tail + held)[-TAIL_BYTES:])


def _line(data: bytes, head: bytes, dropped: int, length: int) -> RawLine:
    if dropped or len(data) > LONGEST_LINE:
        return RawLine(head or data[:_HEAD_BYTES], length + dropped, too_long=True)
    return RawLine(data, length)
