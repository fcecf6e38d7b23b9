"""Counts what accounting files contain, whether or not it is in the database already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from jobsight_server.accounting.files import PIECE_BYTES, Chunk, Content
from jobsight_server.accounting.formats import Read, RecordReader
from jobsight_server.accounting.run_keys import RunKeys
from jobsight_server.accounting.runs import AccountingError, JobEvent


@dataclass(slots=True)
class Figures:
    """``lines`` counts line ends (and a last line without one), independently of the lines' outcomes.

    Of logs whose records are not lines it counts records, and ``bytes_left`` is what was read and is in none;
    ``by_lines`` is False if there was such a log.
    ``ended`` are the runs of E records, ``runs`` also those of S and R records. ``tasks``: jobs with records of
    parallel tasks.
    """

    lines: int = 0
    bytes_left: int = 0
    by_lines: bool = True
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    runs: RunKeys = field(default_factory=RunKeys)
    ended: RunKeys = field(default_factory=RunKeys)
    users: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)

    @property
    def lost_without_reason(self) -> int:
        return self.lines - self.records.total() - self.rejected.total() + (self.bytes_left != 0)

    @property
    def ran_more_than_once(self) -> list[int]:
        """Jobs that ran more than once, with their number of runs."""
        return self.runs.of_repeated_jobs

    def add(self, event: JobEvent) -> None:
        """Counts a record."""
        self.records[event.kind] += 1
        if event.task is not None:
            self.tasks.add(event.job_id)
        if event.run is not None and event.run.start < inf:
            self.runs.add(event.job_id, event.run.start)
            if event.kind == "E":
                self.ended.add(event.job_id, event.run.start)
                self.users.add(event.run.user)

    def cover(self, chunk: Chunk, reader: RecordReader) -> None:
        """Counts a chunk's bytes and lines, without parsing its records."""
        self.bytes_left -= chunk.length
        if not reader.by_lines:
            self.lines += len(chunk.records)
            self.by_lines = False

    def add_chunk(self, chunk: Chunk, reader: RecordReader) -> None:
        """Counts the records of a chunk, rejected ones included."""
        self.cover(chunk, reader)
        for record in chunk.records:
            try:
                self.add(reader.event(record))
            except AccountingError as error:
                self.rejected[error.reason] += 1

    def counting(self, read: Read, reader: RecordReader) -> Read:
        """Wraps ``read`` to count the bytes and lines that pass, independently of the code that splits them."""
        last = b"\n"

        def counted(size: int) -> bytes:
            nonlocal last
            piece = read(size)
            if piece:
                self.bytes_left += len(piece)
                if reader.by_lines:
                    # A line is counted by its first byte, so that the last one needs no end.
                    self.lines += piece.count(b"\n", 0, -1) + (last == b"\n")
                    last = piece[-1:]
            return piece

        return counted


@dataclass(slots=True)
class StartsOfJobs(Figures):
    """Figures that also keep the starts of each job's runs, by job id: some hundred bytes for each run."""

    starts: dict[str, set[float]] = field(default_factory=dict)

    def add(self, event: JobEvent) -> None:
        """Counts a record."""
        Figures.add(self, event)
        if event.run is not None and event.run.start < inf:
            self.starts.setdefault(event.job_id, set()).add(event.run.start)


def count_records(figures: Figures, content: Content, reader: RecordReader, until: float = inf) -> None:
    """Adds the first ``until`` bytes of ``content``, unpacked; its position is there afterwards."""
    content.go_to(0)
    for chunk in reader.split(figures.counting(_first(content.read, until), reader)):
        figures.add_chunk(chunk, reader)


def _first(read: Read, count: float) -> Read:
    left = count

    def limited(size: int = PIECE_BYTES) -> bytes:
        nonlocal left
        piece = read(int(min(size, left))) if left else b""
        left -= len(piece)
        return piece

    return limited
