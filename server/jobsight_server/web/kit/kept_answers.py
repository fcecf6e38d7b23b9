"""Keeps costly answers for a while, so that pages which poll take little of a processor."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from flask import Request, has_app_context

from jobsight_server.web.kit.access import known_viewer

COSTLY_S = 0.02
"""CPU time from which on an answer is kept."""

_TIMES = 150  # its cost: a page that asks every 3 s takes 20 ms each time in the mean, however much an answer costs
_LONGEST_S = 60.0
_BYTES_AT_MOST = 2**24  # of all


class Kept(NamedTuple):
    """An answer's JSON and its ETag; ``until``: by the clock."""

    body: bytes
    tag: str
    until: float


class KeptAnswers:
    """The last costly answers of a process, each for its reader only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, request: Request) -> Kept | None:
        """Return the kept answer for a request that already has one (If-None-Match); None for any other."""
        if not request.if_none_match:
            return None
        with self._lock:
            found = self._kept.get(_key(request))
        return found if found is not None and self._clock() < found.until else None

    def put(self, request: Request, body: bytes, tag: str, cost_s: float) -> None:
        """Keep an answer that took ``cost_s`` of CPU time, if that is much."""
        if cost_s < COSTLY_S or len(body) > _BYTES_AT_MOST:
            return
        until = self._clock() + min(_TIMES * cost_s, _LONGEST_S)
        key = _key(request)
        with self._lock:
            if (older := self._kept.pop(key, None)) is not None:
                self._bytes -= len(older.body)
            self._kept[key] = Kept(body, tag, until)
            self._bytes += len(body)
            while self._bytes > _BYTES_AT_MOST:
                self._bytes -= len(self._kept.popitem(last=False)[1].body)


def _key(request: Request) -> bytes:
    # Readers may see different data.
    who = repr(known_viewer()) if has_app_context() else ""  # a proxy names its users in a header of its own
    parts = (request.full_path, who, request.headers.get("Authorization", ""), request.headers.get("Cookie", ""))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()
