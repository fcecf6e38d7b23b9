"""The content of accounting files, whether or not it is in the database already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from jobsight_server.accounting.files import PIECE_BYTES, Chunk, Content, chunks
from jobsight_server.accounting.load import event_of
from jobsight_server.accounting.parsers import Parse
from jobsight_server.accounting.runs import AccountingError, JobEvent

Read = Callable[[int], bytes]


@dataclass(slots=True)
class Figures:
    """``lines`` counts line ends (and a last line without one), independently of the lines' outcomes.

    Per job id, ``ended`` has the starts of its E records, ``starts`` also those of its S records.
    """

    lines: int = 0
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    starts: dict[str, set[float]] = field(default_factory=dict)
    ended: dict[str, set[float]] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)

    @property
    def lost_without_reason(self) -> int:
        return self.lines - self.records.total() - self.rejected.total()

    @property
    def ran_more_than_once(self) -> list[int]:
        """Jobs that ran more than once, with their number of runs."""
        return [len(starts) for starts in self.starts.values() if len(starts) > 1]

    def add(self, event: JobEvent) -> None:
        """Counts a record."""
        self.records[event.kind] += 1
        if event.run is not None:
            self.starts.setdefault(event.job_id, set()).add(event.run.start)
            if event.kind == "E":
                self.ended.setdefault(event.job_id, set()).add(event.run.start)
                self.users.add(event.run.user)

    def add_chunk(self, chunk: Chunk, parse: Parse) -> None:
        """Counts the records and the rejected lines of a chunk."""
        for line in chunk.lines:
            try:
                self.add(event_of(line, parse))
            except AccountingError as error:
                self.rejected[error.reason] += 1

    def counting(self, read: Read) -> Read:
        """``read``, counting the lines that pass, independently of the code that splits them."""
        last = b"\n"

        def counted(size: int) -> bytes:
            nonlocal last
            piece = read(size)
            if piece:
                # A line is counted by its first byte, so that the last one needs no end.
                self.lines += piece.count(b"\n", 0, -1) + (last == b"\n")
                last = piece[-1:]
            return piece

        return counted


def count_lines(figures: Figures, content: Content, parse: Parse, until: float = inf) -> None:
    """Adds the first ``until`` bytes of ``content``, unpacked; its position is there afterwards."""
    content.go_to(0)
    for chunk in chunks(figures.counting(_first(content.read, until))):
        figures.add_chunk(chunk, parse)


def _first(read: Read, count: float) -> Read:
    left = count

    def limited(size: int = PIECE_BYTES) -> bytes:
        nonlocal left
        piece = read(int(min(size, left))) if left else b""
        left -= len(piece)
        return piece

    return limited
