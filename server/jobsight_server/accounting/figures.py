"""What is in accounting files, whether or not it is in the database already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from jobsight_server.accounting.files import Content
from jobsight_server.accounting.intake import PARSERS, event_of
from jobsight_server.accounting.lines import PIECE_BYTES, portions
from jobsight_server.accounting.record import AccountingError, JobEvent

Read = Callable[[int], bytes]


@dataclass(slots=True)
class Figures:
    """``lines`` counts line ends (and a last line without one), apart from what became of the lines.

    Per job id, ``ended`` holds the starts of its E records, ``starts`` those of its S records too.
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
        """Of each job that did, how many runs."""
        return [len(starts) for starts in self.starts.values() if len(starts) > 1]

    def add(self, event: JobEvent) -> None:
        """Counts a record."""
        self.records[event.kind] += 1
        if event.run is not None:
            self.starts.setdefault(event.job_id, set()).add(event.run.start)
            if event.kind == "E":
                self.ended.setdefault(event.job_id, set()).add(event.run.start)
                self.users.add(event.run.user)

    def counting(self, read: Read) -> Read:
        """``read``, with the lines counted that pass, independently of who cuts them into lines."""
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

    def merge(self, other: Figures) -> None:
        """Adds those of another file."""
        self.lines += other.lines
        self.records += other.records
        self.rejected += other.rejected
        self.users |= other.users
        for mine, theirs in ((self.starts, other.starts), (self.ended, other.ended)):
            for job_id, starts in theirs.items():
                mine.setdefault(job_id, set()).update(starts)


def add_figures(figures: Figures, file: Path, log_format: str, until: int | None = None) -> None:
    """Adds what is in ``file``, in its first ``until`` bytes (unpacked) or in all of it.

    Raises:
        UnreadableError: the file cannot be opened.
    """
    parse = PARSERS[log_format]
    with Content(file) as content:
        for portion in portions(figures.counting(content.read if until is None else _first(content.read, until))):
            for line in portion.lines:
                try:
                    figures.add(event_of(line, parse))
                except AccountingError as error:
                    figures.rejected[error.reason] += 1


def _first(read: Read, count: int) -> Read:
    left = count

    def limited(size: int = PIECE_BYTES) -> bytes:
        nonlocal left
        piece = read(min(size, left)) if left else b""
        left -= len(piece)
        return piece

    return limited
