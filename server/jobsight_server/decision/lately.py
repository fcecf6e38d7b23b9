"""Jobs that were lowered so lately that no log can show how they ended; shared by the processes that answer."""

from __future__ import annotations

import hashlib
import struct
from mmap import mmap

TOGETHER_S = 2.0
"""Jobs submitted within this after the first one are a loop or an array: no job starts, dies and returns so soon."""

UNKNOWN_S = 60.0
"""Time until a job that was killed is in the log, which is read every 30 s, and learned."""

_ENTRY = struct.Struct("=qd")  # a digest of the names, and the time of the first job
_ENTRIES = 8192


class Lately:
    """The first lowered job of each user and application within ``UNKNOWN_S``.

    Workers that are forked later share it. Two applications in one place, one in 8,192, displace each other: then the
    log decides, as without this.
    """

    def __init__(self) -> None:
        self._memory = mmap(-1, _ENTRY.size * _ENTRIES)

    def is_unproven(self, cluster: str, user: str, application: str | None, last_end: float, now: float) -> bool:
        """Return whether such a job was lowered and may have been killed since; ``last_end`` is that of the last run
        known."""
        digest, place = _place(cluster, user, application)
        found, first = _ENTRY.unpack_from(self._memory, place)
        return bool(found == digest and last_end <= first and TOGETHER_S < now - first < UNKNOWN_S)

    def add(self, cluster: str, user: str, application: str | None, now: float) -> None:
        """Note that such a job was lowered."""
        digest, place = _place(cluster, user, application)
        found, first = _ENTRY.unpack_from(self._memory, place)
        if found != digest or not 0.0 <= now - first < UNKNOWN_S:
            _ENTRY.pack_into(self._memory, place, digest, now)


def _place(*names: str | None) -> tuple[int, int]:
    text = "\0".join(name or "" for name in names)
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
    return digest, digest % _ENTRIES * _ENTRY.size
