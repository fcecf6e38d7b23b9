"""Imports accounting files into the database, each from where reading stopped, one chunk per transaction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.figures import ImportFigures, count_records
from jobsight_server.accounting.files import Chunk, Content, RecordReader, UnreadableError, look
from jobsight_server.accounting.formats import open_reader
from jobsight_server.accounting.guess import check_format, guess_format, is_blank
from jobsight_server.accounting.load import LoadReport, parse_chunk, store_chunk
from jobsight_server.accounting.origin import NOTHING, Given
from jobsight_server.accounting.position import FileProgress, LogPosition, find_place, positions, set_position
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.store import forget_rejects, lock_cluster, reject_label
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.ground.seldom import Seldom
from jobsight_server.settings.declared import AccountingFormat

log = logging.getLogger(__name__)

BytesRead = Callable[[Path, int], None]


@dataclass(slots=True)
class LogReader:
    """Reads files of one cluster, in the order in which they were written, into the database of ``engine``.

    ``log_format`` None is guessed from each file. ``progress(path, bytes)`` receives the bytes read of a file on
    disk. ``seldom``: limits log lines about unreadable files; without it, all are logged. ``given``: values that the
    files lack.
    """

    engine: Engine
    cluster: str
    clock: Callable[[], float]
    log_format: AccountingFormat | None = None
    clock_offset: ClockOffset = field(default_factory=ClockOffset)
    stop: threading.Event | None = None
    progress: BytesRead | None = None
    most_records: int = 1000
    seldom: Seldom | None = None
    given: Given = NOTHING
    report: LoadReport = field(default_factory=LoadReport)
    _known: dict[str, LogPosition] | None = None

    def read(self, path: Path, *, final: bool, figures: ImportFigures | None = None) -> None:
        """Read the new part of ``path``.

        ``final``: the file no longer grows, so a truncated last line is rejected; otherwise it waits for its end. If
        the end arrives after all, the file is read again from its beginning. ``figures``
        counts everything in the file, including the part read earlier.
        """
        path = path.absolute()
        name = str(path).encode("utf-8", "backslashreplace").decode()
        if self._known is None:
            with self.engine.connect().execution_options(reading=True) as connection:
                self._known = positions(connection, self.cluster)
        own = self._known.get(name)
        try:
            if figures is None and own is not None and own.stat == look(path).text:
                return
            with Content(path) as content:
                place = find_place(name, content, own, self._known)
                self._read(content, place, final, figures)
                self._known[name] = place.expected or place.position("")
                if content.damage is not None:
                    self.unreadable(name, content.damage)
        except (UnreadableError, AccountingError) as error:  # the latter is its header's
            self.unreadable(name, str(error), error.reason)

    def unreadable(self, name: str, cause: str, label: str | None = None) -> None:
        """Count and report an unreadable file, and go on. ``label``: the label to count, by default the cause."""
        self.report.unreadable[name] = cause
        if self.seldom is None or self.seldom.lets((name, cause), self.clock()):
            log.warning("accounting of %s: %s: %s", self.cluster, name, cause)
        with self.engine.begin() as connection:
            add_event_counts(connection, {("accounting_unreadable", label or cause): 1})

    def _read(self, content: Content, place: FileProgress, final: bool, figures: ImportFigures | None) -> None:
        if self.log_format is not None and place.offset == 0 and figures is None:  # an import has checked it before
            check_format(content, self.log_format)
        if self.log_format is None and is_blank(content, final):
            return  # tried again in the next round
        place.log_format = log_format = self.log_format or guess_format(content)
        reader = open_reader(log_format, content, self.given)
        if reader.resumed is not None and place.offset:
            reader = reader.resumed(content.until(place.offset))
        content.go_to(place.offset)
        self.report.files += 1
        self._restart_if_cut(content, place, reader.by_lines)
        if figures is not None and place.offset:
            count_records(figures, content, reader, until=place.offset)
            content.go_to(place.offset)
        read = content.read if figures is None else figures.counting(content.read)
        left = reader.split(read, place.tail, self.most_records)
        for chunk in left:
            waiting = chunk.records and not (chunk.records[-1].complete or final or content.packed)
            if waiting or (self.stop is not None and self.stop.is_set()):
                return
            if not self._take_in(place, chunk, content, reader, figures):
                if figures is not None:  # another process continues with the file: the rest is only counted
                    for other in left:
                        figures.add_chunk(other, reader)
                return
            if self.progress is not None:
                self.progress(content.path, content.raw_position)
        if content.damage is None or content.packed:
            with self._locked(place) as connection:
                if connection is not None:
                    self._set(connection, place, stat=content.stat.text)

    def _restart_if_cut(self, content: Content, place: FileProgress, by_lines: bool) -> None:
        """Go back to the beginning if the last record was rejected as truncated, and the file has grown."""
        grown = bool(content.read(1))
        content.go_to(place.offset)
        if not (grown and place.lines) or (by_lines and place.tail.endswith(b"\n")):
            return
        with self._locked(place) as connection:
            reason = None if connection is None else reject_label(connection, self.cluster, place.name, place.lines)
            if connection is None or not (by_lines or (reason or "").startswith("cut off:")):
                return
            # What was counted of it is counted again.
            forget_rejects(connection, self.cluster, place.name)
            add_event_counts(connection, {key: -n for key, n in place.counts.items()})
            place.offset, place.lines, place.tail, place.counts = 0, 0, b"", {}
            self._set(connection, place)
        content.go_to(0)

    def _take_in(
        self, place: FileProgress, chunk: Chunk, content: Content, reader: RecordReader, figures: ImportFigures | None
    ) -> bool:
        """Store one chunk in one transaction; return False if another process has read the file in the meantime."""
        parsed = parse_chunk(chunk, place.lines, reader, self.clock_offset)
        if figures is not None:
            figures.cover(chunk, reader)
            for event in parsed.events:
                figures.add(event)
            figures.rejected.update(reject.label for reject in parsed.rejects)
        with self._locked(place) as connection:
            if connection is None:
                return False
            now = self.clock()
            place.count(store_chunk(connection, self.cluster, place.name, parsed, now, self.report))
            if place.read_again:
                add_event_counts(connection, {("accounting_files", "read again"): 1})
                place.read_again = False
            place.advance(chunk, content)
            self._set(connection, place, now)
        return True

    @contextmanager
    def _locked(self, place: FileProgress) -> Iterator[Connection | None]:
        """Yield a connection whose transaction has locked the cluster; None if another process has read the file."""
        with self.engine.begin() as connection:
            lock_cluster(connection, self.cluster)
            is_still = positions(connection, self.cluster, place.name).get(place.name) == place.expected
            if not is_still:
                log.warning("accounting of %s: %s is also read by another process", self.cluster, place.name)
            yield connection if is_still else None

    def _set(self, connection: Connection, place: FileProgress, now: float | None = None, stat: str = "") -> None:
        """Store the position; with ``stat``, nothing is left to read while that stays the same."""
        place.expected = place.position(stat)
        set_position(connection, self.cluster, place.expected, self.clock() if now is None else now)
