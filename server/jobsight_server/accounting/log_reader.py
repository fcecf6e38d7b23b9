"""Imports accounting files into the database, each from where reading stopped, one chunk per transaction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.figures import Figures, count_lines
from jobsight_server.accounting.files import LONGEST_LINE, Chunk, Content, UnreadableError, chunks, look
from jobsight_server.accounting.load import CUT, LoadReport, learn_zone, parse_chunk, store_chunk
from jobsight_server.accounting.parsers import PARSERS
from jobsight_server.accounting.position import FileProgress, Position, find_place, positions, set_position
from jobsight_server.accounting.store import lock_cluster, take_back
from jobsight_server.seldom import Seldom
from jobsight_server.storage.event_counts import add_event_counts

log = logging.getLogger(__name__)

BytesRead = Callable[[Path, int], None]


@dataclass(slots=True)
class LogReader:
    """Reads files of one cluster, in the order in which they were written, into the database of ``engine``.

    ``progress(path, bytes)`` receives how much of a file on disk has been read. ``said``: which log lines about
    unreadable files are due; without it, all are.
    """

    engine: Engine
    cluster: str
    clock: Callable[[], float]
    log_format: str = "torque"
    clock_offset: ClockOffset = field(default_factory=ClockOffset)
    stop: threading.Event | None = None
    progress: BytesRead | None = None
    most_lines: int = 500
    said: Seldom | None = None
    report: LoadReport = field(default_factory=LoadReport)
    _known: dict[str, Position] | None = None

    def read(self, path: Path, *, final: bool, previous: Path | None = None, figures: Figures | None = None) -> None:
        """Reads what is new in ``path``.

        ``final``: the file does not grow any more, so a truncated last line is rejected; else it waits for its end. If
        its end comes after all, the rejection is taken back. ``previous`` is the file before this one. ``figures``
        counts everything in the file, including what was read earlier.
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
        except UnreadableError as error:
            self.unreadable(name, str(error))

    def unreadable(self, name: str, cause: str) -> None:
        """Counts and reports an unreadable file; the rest continues."""
        self.report.unreadable[name] = cause
        if self.said is None or self.said.lets((name, cause), self.clock()):
            log.warning("accounting of %s: %s: %s", self.cluster, name, cause)
        with self.engine.begin() as connection:
            add_event_counts(connection, {("accounting_unreadable", cause): 1})

    def _read(
        self, content: Content, place: FileProgress, final: bool, previous: Path | None, figures: Figures | None
    ) -> None:
        parse = PARSERS[self.log_format]
        self.report.files += 1
        if place.cut is not None and not self._take_back(content, place, place.cut):
            if figures is not None:
                count_lines(figures, content, parse)
            return
        if figures is not None and place.offset:
            count_lines(figures, content, parse, until=place.offset)
            content.go_to(place.offset)
        zone_sought = False
        read = content.read if figures is None else figures.counting(content.read)
        left = chunks(read, place.tail, self.most_lines)
        for chunk in left:
            waiting = not (chunk.lines[-1].complete or final or content.packed)
            if waiting or (self.stop is not None and self.stop.is_set()):
                return
            if not zone_sought:
                self._seek_zone(place.tail, previous)
                zone_sought = True
            if not self._take_in(place, chunk, content, figures):
                if figures is not None:  # another process continues with the file: the rest is only counted
                    for other in left:
                        figures.add_chunk(other, parse)
                return
            if self.progress is not None:
                self.progress(content.path, content.raw_position)
        if content.damage is None or content.packed:
            self._settle(place, content.stat.text)

    def _take_back(self, content: Content, place: FileProgress, source: Position) -> bool:
        """Goes back to the start of the last line, which was rejected as truncated, if the file has grown."""
        begin = place.tail.rfind(b"\n") + 1
        length = len(place.tail) - begin
        grown = bool(content.read(1))
        if grown and length <= LONGEST_LINE:
            with self.engine.begin() as connection:
                lock_cluster(connection, self.cluster)
                if not self._is_still(place, positions(connection, self.cluster, place.name)):
                    return False
                take_back(connection, self.cluster, source.path, source.lines)
                counts = {("accounting_lines", "rejected"): -1, ("accounting_rejected_because", CUT): -1}
                add_event_counts(connection, counts)
                place.count(counts)
                place.offset, place.lines = place.offset - length, place.lines - 1
                place.tail = content.go_to(place.offset)
                place.expected = place.position("")
                set_position(connection, self.cluster, place.expected, self.clock())
        content.go_to(place.offset)
        return True

    def _seek_zone(self, before: bytes, previous: Path | None) -> None:
        """Learns the server's zone from earlier lines, if nothing has shown it yet."""
        parse = PARSERS[self.log_format]
        if not self.clock_offset.known:
            learn_zone(before, parse, self.clock_offset)
        if self.clock_offset.known or previous is None:
            return
        try:
            with Content(previous) as content:
                if not content.packed:
                    learn_zone(content.go_to(content.stat.size), parse, self.clock_offset)
        except UnreadableError:
            return  # counted in that file's turn; the zone will show later on

    def _take_in(self, place: FileProgress, chunk: Chunk, content: Content, figures: Figures | None) -> bool:
        """One chunk, one transaction; False if another process has read the file in the meantime."""
        parsed = parse_chunk(chunk, place.lines, PARSERS[self.log_format], self.clock_offset)
        if figures is not None:
            for stamped in parsed.events:
                figures.add(stamped.event)
            figures.rejected.update(reject.label for reject in parsed.rejects)
        with self.engine.begin() as connection:
            lock_cluster(connection, self.cluster)
            if not self._is_still(place, positions(connection, self.cluster, place.name)):
                return False
            now = self.clock()
            place.count(store_chunk(connection, self.cluster, place.name, parsed, now, self.report))
            if place.read_again:
                add_event_counts(connection, {("accounting_files", "read again"): 1})
                place.read_again = False
            place.advance(chunk, content)
            place.expected = place.position("")
            set_position(connection, self.cluster, place.expected, now)
        return True

    def _settle(self, place: FileProgress, stat: str) -> None:
        """Records that nothing is left to read while ``stat`` stays the same."""
        with self.engine.begin() as connection:
            lock_cluster(connection, self.cluster)
            if self._is_still(place, positions(connection, self.cluster, place.name)):
                place.expected = place.position(stat)
                set_position(connection, self.cluster, place.expected, self.clock())

    def _is_still(self, place: FileProgress, found: dict[str, Position]) -> bool:
        still = found.get(place.name) == place.expected
        if not still:
            log.warning("accounting of %s: %s is also read by another process", self.cluster, place.name)
        return still
