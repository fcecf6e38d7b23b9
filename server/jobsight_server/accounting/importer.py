"""Reads accounting files once, and says what is in them and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, func, select

from jobsight_server.accounting.feed import Feed, Progress
from jobsight_server.accounting.files import Content, UnreadableError
from jobsight_server.accounting.intake import PARSERS, FollowReport, event_of
from jobsight_server.accounting.lines import PIECE_BYTES, portions
from jobsight_server.accounting.record import AccountingError
from jobsight_server.storage.schema import jobs


@dataclass(slots=True)
class Figures:
    """What is in the files, whether or not it is in the database already.

    ``lines`` counts line ends (and a last line without one), apart from what became of the lines. The runs are
    those of E records: per job id their starts.
    """

    lines: int = 0
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    starts: dict[str, set[float]] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)

    @property
    def lost_without_reason(self) -> int:
        return self.lines - self.records.total() - self.rejected.total()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """``figures`` of the files, ``taken_in`` of what was new in them, and how many runs the database gained."""

    figures: Figures
    taken_in: FollowReport
    new_runs: int


def import_files(
    engine: Engine,
    files: Sequence[Path],
    cluster: str,
    clock: Callable[[], float],
    log_format: str = "torque",
    progress: Progress | None = None,
) -> ImportReport:
    """Takes in ``files``, plain or gzip, in the order given. Files that were read before change nothing."""
    figures = Figures()
    feed = Feed(engine, cluster, clock, log_format, progress=progress)
    before = _runs(engine, cluster)
    for position, file in enumerate(files):
        feed.read(file, final=True, previous=files[position - 1] if position else None)
        try:
            add_figures(figures, file, log_format)
        except UnreadableError as error:
            # The feed has counted it; here it only has no figures.
            feed.report.unreadable.setdefault(str(file.absolute()), str(error))
    return ImportReport(figures, feed.report, _runs(engine, cluster) - before)


def add_figures(figures: Figures, file: Path, log_format: str) -> None:
    """Adds what is in ``file``; UnreadableError where it cannot be opened."""
    parse = PARSERS[log_format]
    with Content(file) as content:
        counting = _LineCount(content.read)
        for portion in portions(counting.read):
            for line in portion.lines:
                try:
                    event = event_of(line, parse)
                except AccountingError as error:
                    figures.rejected[error.reason] += 1
                    continue
                figures.records[event.kind] += 1
                if event.kind == "E" and event.run is not None:
                    figures.starts.setdefault(event.job_id, set()).add(event.run.start)
                    figures.users.add(event.run.user)
        figures.lines += counting.lines


class _LineCount:
    """Counts lines in the bytes that pass, independently of who cuts them into lines."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._ends = 0
        self._last = b"\n"

    @property
    def lines(self) -> int:
        return self._ends + (self._last != b"\n")

    def read(self, size: int = PIECE_BYTES) -> bytes:
        piece = self._read(size)
        self._ends += piece.count(b"\n")
        self._last = piece[-1:] or self._last
        return piece


def _runs(engine: Engine, cluster: str) -> int:
    with engine.connect().execution_options(reading=True) as connection:
        count = connection.scalar(select(func.count()).select_from(jobs).where(jobs.c.cluster == cluster))
    return count or 0
