"""Lists that come in pages."""

from __future__ import annotations

from jobsight_server.record import Record

PAGE_SIZE = 50


class Page(Record):
    """The position in a list; ``page`` counts from 1, ``total`` is the number of entries."""

    page: int
    pages: int
    total: int


def pages_of(total: int) -> int:
    """How many pages a list of ``total`` entries has; an empty one has one."""
    return max(1, -(-total // PAGE_SIZE))
