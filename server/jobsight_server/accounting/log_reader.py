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
from jobsight_server.accounting.figures import Figures, count_records
from jobsight_server.accounting.files import CUT, LONGEST_LINE, Chunk, Content, RecordReader, UnreadableError, look
from jobsight_server.accounting.formats import open_reader
from jobsight_server.accounting.guess import check_format, guess_format, is_blank
from jobsight_server.accounting.load import LoadReport, learn_zone, parse_chunk, store_chunk
from jobsight_server.accounting.origin import NOTHING, Given
from jobsight_server.accounting.position import FileProgress, Position, find_place, positions, set_position
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.store import lock_cluster, reject_label, take_back
from jobsight_server.settings.declared import AccountingFormat
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.seldom import Seldom

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
    _known: dict[str, Position] | None = None

    def read(self, path: Path, *, final: bool, previous: Path | None = None, figures: Figures | None = None) -> None:
        """Read the new part of ``path``.

        ``final``: the file no longer grows, so a truncated last line is rejected; otherwise it waits for its end. If
        the end arrives after all, the rejection is withdrawn. ``previous`` is the file before this one. ``figures``
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
                self._read(content, place, final, previous, figures)
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

    def _read(
        self, content: Content, place: FileProgress, final: bool, previous: Path | None, figures: Figures | None
    ) -> None:
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
        if not reader.by_lines:
            self._restart_if_cut(content, place)
        elif place.cut is not None and not self._take_back(content, place, place.cut):
            if figures is not None:
                count_records(figures, content, reader)
            return
        if figures is not None and place.offset:
            count_records(figures, content, reader, until=place.offset)
            content.go_to(place.offset)
        zone_sought = False
        read = content.read if figures is None else figures.counting(content.read)
        left = reader.split(read, place.tail, self.most_records)
        for chunk in left:
            waiting = chunk.records and not (chunk.records[-1].complete or final or content.packed)
            if waiting or (self.stop is not None and self.stop.is_set()):
                return
            if not zone_sought:
                self._seek_zone(place.tail, previous, reader)
                zone_sought = True
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

    def _take_back(self, content: Content, place: FileProgress, source: Position) -> bool:
        """Go back to the start of the last line, which was rejected as truncated, if the file has grown."""
        begin = place.tail.rfind(b"\n") + 1
        length = len(place.tail) - begin
        grown = bool(content.read(1))
        if grown and length <= LONGEST_LINE:
            with self._locked(place) as connection:
                if connection is None:
                    return False
                self._withdraw_reject(connection, place, source.path, source.lines, CUT)
                place.offset, place.lines = place.offset - length, place.lines - 1
                place.tail = content.go_to(place.offset)
                self._set(connection, place)
        content.go_to(place.offset)
        return True

    def _restart_if_cut(self, content: Content, place: FileProgress) -> None:
        """Go back to the beginning if the last record was rejected as truncated and the file has grown."""
        grown = bool(content.read(1))
        content.go_to(place.offset)
        if not (grown and place.lines):
            return
        with self._locked(place) as connection:
            if connection is None:
                return
            reason = reject_label(connection, self.cluster, place.name, place.lines)
            if reason is None or not reason.startswith("cut off:"):
                return
            self._withdraw_reject(connection, place, place.name, place.lines, reason)
            place.offset, place.lines, place.tail, place.read_again = 0, 0, b"", True
            self._set(connection, place)
        content.go_to(0)

    def _withdraw_reject(self, connection: Connection, place: FileProgress, path: str, line: int, reason: str) -> None:
        """Withdraw the rejection, for ``reason``, of a record that was incomplete then."""
        take_back(connection, self.cluster, path, line)
        counts = {("accounting_lines", "rejected"): -1, ("accounting_rejected_because", reason): -1}
        add_event_counts(connection, counts)
        place.count(counts)

    def _seek_zone(self, before: bytes, previous: Path | None, reader: RecordReader) -> None:
        """Learn the server's zone from earlier lines, if nothing has shown it yet."""
        if not reader.by_lines:
            return  # its records give times in UTC, or in this machine's zone
        if not self.clock_offset.known:
            learn_zone(before, reader, self.clock_offset)
        if self.clock_offset.known or previous is None:
            return
        try:
            with Content(previous) as content:
                if not content.packed:
                    learn_zone(content.go_to(content.stat.size), reader, self.clock_offset)
        except UnreadableError:
            return  # counted when that file is read; the zone will show later

    def _take_in(
        self, place: FileProgress, chunk: Chunk, content: Content, reader: RecordReader, figures: Figures | None
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
