"""Parses the kernel's text files; a truncated or non-numeric value is a `ValueError`, never a guess."""

from __future__ import annotations

import os
from pathlib import Path

MOST_COUNT = 2**64 - 1  # of the kernel's widest counter
MOST_BYTES = 2**63 - 1  # of memory, as the wire format holds it
MOST_TICKS = 10**15


def number(word: bytes, most: int = MOST_COUNT) -> int:
    """Read a count.

    Raises:
        ValueError: not plain digits, or more than ``most``.
    """
    if not word.isdigit() or len(word) > 20 or int(word) > most:
        raise ValueError(f"not a count up to {most}: {word[:40]!r}")
    return int(word)


def text(file: Path) -> str:
    """Read a small file without white space around its text; empty if it cannot be read."""
    try:
        return file.read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def network_rows(contents: bytes) -> dict[str, bytes]:
    """Return the rows of ``/proc/net/dev`` by interface."""
    rows: dict[str, bytes] = {}
    for line in contents.split(b"\n")[2:]:
        name, colon, row = line.partition(b":")
        if colon:
            rows[os.fsdecode(name.strip())] = row
    return rows


def bytes_in_and_out(row: bytes) -> tuple[int, int]:
    """Read the bytes in and out of one interface.

    Raises:
        ValueError: the row is truncated, or has no numbers.
    """
    columns = row.split()
    if len(columns) < 10:  # the field after the bytes sent shows that these are complete
        raise ValueError(f"{len(columns)} columns")
    return number(columns[0]), number(columns[8])


def memory_bytes(contents: bytes, label: bytes) -> int | None:
    """Read a line of ``/proc/meminfo`` in bytes; None if it is missing or invalid."""
    line = (b"\n" + contents).partition(b"\n" + label)[2]
    words = line[:40].split(None, 2)
    if len(words) < 2 or words[1] != b"kB":
        return None
    try:
        return number(words[0], MOST_BYTES // 1024) * 1024
    except ValueError:
        return None


def huge_pages(contents: bytes) -> tuple[int, int]:
    """Read from ``/proc/meminfo``, in bytes, the pools of huge pages and the free ones of the default size.

    Raises:
        ValueError: invalid count or size of pages.
    """
    size = memory_bytes(contents, b"Hugepagesize:") or 0
    total, free = (_count_after(contents, label) for label in (b"HugePages_Total:", b"HugePages_Free:"))
    if free > total or (total and not size):
        raise ValueError(f"{free} free of {total} huge pages of {size} bytes")
    return max(total * size, memory_bytes(contents, b"Hugetlb:") or 0), free * size


def _count_after(contents: bytes, label: bytes) -> int:
    rest = (b"\n" + contents).partition(b"\n" + label)[2]
    return number(rest.partition(b"\n")[0].strip(), MOST_BYTES) if rest else 0


def shrinkable_bytes(contents: bytes) -> int:
    """Return the memory that ZFS's cache (``arcstats``) gives back on demand: its size above its minimum.

    Raises:
        ValueError: a number is damaged.
    """
    found = {line[0]: number(line[2], MOST_BYTES) for line in map(bytes.split, contents.splitlines())
             if len(line) == 3 and line[0] in (b"size", b"c_min")}  # fmt: skip
    return max(0, found[b"size"] - found[b"c_min"]) if len(found) == 2 else 0


def busy_ticks(contents: bytes) -> int:
    """Read the busy clock ticks of all processors together from ``/proc/stat``.

    All modes but idle, iowait and steal (another machine ran); user time includes guest time.

    Raises:
        ValueError: the line is truncated, or a different one.
    """
    label, user, nice, system, _idle, _iowait, irq, softirq, _steal, _rest = contents.split(None, 9)
    if label != b"cpu":
        raise ValueError(f"not the processors' line: {label[:40]!r}")
    return sum(number(ticks, MOST_TICKS) for ticks in (user, nice, system, irq, softirq))
