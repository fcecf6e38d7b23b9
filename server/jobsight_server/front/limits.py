"""Limits of a client's time and share of the process."""

from __future__ import annotations

import resource
from dataclasses import dataclass

CONNECTIONS = 1000
"""Connections of one process, unless its limit of descriptors is lower."""

_DESCRIPTORS_WANTED = 16384
_DESCRIPTORS_KEPT = 128  # for the database, logs and listening sockets


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines are totals: sending a byte now and then does not extend them."""

    held_bytes: int
    """Bytes of all requests in this process, from the first byte until the answer."""
    connections: int = CONNECTIONS
    header_bytes: int = 32 * 1024
    """Bytes of a request outside its body: request line, header, sizes and extensions of chunks, trailers. Chunks
    may add as many bytes as the body has."""
    header_fields: int = 100
    header_s: float = 10.0
    body_s: float = 20.0
    answer_s: float = 20.0
    slowest_bytes_per_s: float = 64 * 1024
    """Bodies and responses get another second for each of these bytes."""
    idle_s: float = 75.0
    """Time between two requests of one connection."""
    linger_s: float = 2.0
    """Time to read the response for a client that is still sending a refused request."""
    pipelined: int = 16

    def body_time_s(self, length: int) -> float:
        return self.body_s + length / self.slowest_bytes_per_s

    def answer_time_s(self, length: int) -> float:
        return self.answer_s + length / self.slowest_bytes_per_s


def raise_descriptor_limit() -> int:
    """Raise this process's own limit as far as allowed; return how many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return (_DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft) - _DESCRIPTORS_KEPT
