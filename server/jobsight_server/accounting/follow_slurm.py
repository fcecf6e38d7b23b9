"""Follows started jobs of a Slurm by its command ``sacct``; ``follow_queue`` follows waiting ones.

sacct is asked for text with the columns that are read, in slices of at most an hour, and the position is kept after
each: an answer that could not be read to its end counts as a failure, and the next query continues there. Each query
reaches back a little, and every few minutes further, as jobs reach slurmdbd late. Records that were the same in an
earlier answer are skipped unparsed, so that each is counted once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil, floor, inf
from threading import Event

from sqlalchemy import Connection, select

from jobsight_server.accounting.command_output import CommandError, CommandOutput, CommandSource
from jobsight_server.accounting.files import PIECE_BYTES, RawRecord, RecordReader, exactly
from jobsight_server.accounting.follow_queue import RunKey
from jobsight_server.accounting.formats import BEGINNING_BYTES
from jobsight_server.accounting.load import LoadReport, ParsedChunk, store_chunk
from jobsight_server.accounting.parsers.slurm.reader import text_reader
from jobsight_server.accounting.parsers.slurm.sacct_text import COLUMNS, header_of
from jobsight_server.accounting.position import LogPosition, positions, set_position
from jobsight_server.accounting.runs import RUNNING, AccountingError, JobEvent, UnsettledError
from jobsight_server.accounting.store import Reject, lock_cluster
from jobsight_server.storage.schema import jobs

SACCT = ("--allusers", "--duplicates", "--parsable2", "--noconvert", "--delimiter=\x1f")
"""Added to the command ``sacct``, with the columns and the time."""

_NEWER = ("SLUID", "SubmitLine")  # older releases are asked for the columns that they have
SACCT_NAME = "command sacct"
"""Name of the command without arguments, where other sources have the name of a file."""

_SECONDS_SINCE_1970 = {"SLURM_TIME_FORMAT": "%s"}
_UNKNOWN_COLUMN = re.compile(r'Invalid field requested: "(\w+)"')
_SLICE_S = 3600.0
# How far a query reaches back, except for every few minutes.
_RECENT_S = 60.0
_OVERLAP_EVERY_S = 300.0
# For a job that ended after sacct was queried.
_SETTLED_S = 60.0
# Unfinished records of slurmdbd are read again for so long.
_UNSETTLED_S = 600.0
_MOST_IDS = 500

Answer = dict[int, RunKey]
"""Digest of each record -> its job id and submission."""


@dataclass(slots=True)
class SlurmFollower(CommandSource):
    """Reads one Slurm into the database of ``engine``, and remembers the last answers."""

    _known: Answer = field(default_factory=dict)
    _unknown_columns: set[str] = field(default_factory=set)
    _asked_again: set[RunKey] = field(default_factory=set)
    _unsettled: dict[str, float] = field(default_factory=dict)
    _overlapped: float = -inf

    def read(self, stop: Event | None = None) -> LoadReport:
        """Run the command and store new records. Failures are counted and reported."""
        return self.attempt(SACCT_NAME, lambda report: self._read_sacct(report, stop))

    def _read_sacct(self, report: LoadReport, stop: Event | None) -> None:
        began, listed = self.clock(), set[RunKey]()
        with self.engine.connect().execution_options(reading=True) as connection:
            since = float(self._position(connection).offset or began - self.source.history_s)
        overlaps = not 0 <= began - self._overlapped < _OVERLAP_EVERY_S
        if overlaps:
            self._unknown_columns.clear()  # Slurm may have been upgraded
        start = min(since - (self.source.overlap_s if overlaps else _RECENT_S), began - 1)
        while start < began:
            end = min(start + _SLICE_S, began)
            answer = self._ask(start, end, report, stop)
            if answer is None:
                return
            listed = set(answer.values())
            kept = {} if overlaps else {digest: key for digest, key in self._known.items() if key not in listed}
            self._known = {**kept, **answer}
            with self.engine.begin() as connection:
                lock_cluster(connection, self.source.cluster)
                # Everything until then has been queried and stored.
                position = replace(self._position(connection), offset=int(end))
                set_position(connection, self.source.cluster, position, self.clock())
            start = end
        if overlaps:
            self._overlapped = began
        self._ask_for_lost(listed, began, report, stop)

    def _ask(self, start: float, end: float, report: LoadReport, stop: Event | None, *options: str) -> Answer | None:
        """Store the new records of a time, and return all that sacct lists; None at ``stop``.

        Raises:
            CommandError: the command failed, or its output is not whole.
        """
        now = self.clock()  # and by the clock of the machine that sacct runs on
        until = floor(now - end)
        times = "--starttime", f"now-{ceil(now - start)}", "--endtime", f"now-{until}" if until > 0 else "now"
        columns = [column for column in (*_NEWER, *COLUMNS) if column not in self._unknown_columns]
        try:
            return self._read_answer((f"--format={','.join(columns)}", *times, *options), report, stop)
        except CommandError as error:
            unknown = {*_UNKNOWN_COLUMN.findall(str(error))} & {*columns}
            if not unknown:
                raise
        self._unknown_columns |= unknown
        return self._ask(start, end, report, stop, *options)

    def _read_answer(self, options: Sequence[str], report: LoadReport, stop: Event | None) -> Answer | None:
        answer: Answer = {}
        command = (*self.source.sacct, *SACCT, *options)
        with CommandOutput(command, self.source.timeout_s, stop, _SECONDS_SINCE_1970) as output:
            beginning = exactly(output.read, BEGINNING_BYTES)
            header = header_of(beginning)
            if header is not None:
                reader = text_reader(header)
                if reader.missing:
                    raise CommandError(reader.missing)
                pieces = chain([beginning], iter(partial(output.read, PIECE_BYTES), b""))
                for chunk in reader.split(lambda _: next(pieces, b"")):
                    if not output.stopped:
                        self._take_in(reader, chunk.records, answer, report)
            if output.stopped:
                return None
            output.finish()
        if header is None:
            raise CommandError("its output does not begin with the header of sacct --parsable2")
        return answer

    def _take_in(self, reader: RecordReader, records: Sequence[RawRecord], answer: Answer, report: LoadReport) -> None:
        """Store one chunk in one transaction, without the records that were the same in an earlier answer."""
        events: list[JobEvent] = []
        reasons: list[tuple[AccountingError, RawRecord]] = []
        for record in records:
            digest = hash(record.data)
            key = self._known.get(digest)
            if key is None:
                try:
                    event = reader.event(record)
                    events.append(event)
                    key = event.job_id, event.submitted
                except AccountingError as error:
                    if not record.complete:
                        raise CommandError("its output ends within a record") from error
                    if isinstance(error, UnsettledError) and self._may_settle(error.job_id):
                        continue
                    reasons.append((error, record))
                    key = f"{digest}", None
            answer[digest] = key
        if not events and not reasons:
            return
        with self.engine.begin() as connection:
            lock_cluster(connection, self.source.cluster)
            position, now = self._position(connection), self.clock()
            first = position.lines + len(events) + 1
            rejects = tuple(Reject(n, one.reason, str(one), raw.data) for n, (one, raw) in enumerate(reasons, first))
            parsed = ParsedChunk(tuple(events), rejects, position.lines + 1)
            new = store_chunk(connection, self.source.cluster, SACCT_NAME, parsed, now, report)
            counts = Counter(position.counts) + Counter(new)
            position = replace(position, lines=first - 1 + len(rejects), counts=counts)
            set_position(connection, self.source.cluster, position, now)

    def _position(self, connection: Connection) -> LogPosition:
        """Return the time up to which everything has been queried, 0 for none, and the number of counted records."""
        found = positions(connection, self.source.cluster, SACCT_NAME).get(SACCT_NAME)
        return found or LogPosition(SACCT_NAME)

    def _may_settle(self, job_id: str) -> bool:
        """Return whether an unfinished record of the job is still worth waiting for."""
        now = self.clock()
        self._unsettled = {job: since for job, since in self._unsettled.items() if now - since < 2 * _UNSETTLED_S}
        return now - self._unsettled.setdefault(job_id, now) < _UNSETTLED_S

    def _ask_for_lost(self, listed: set[RunKey], began: float, report: LoadReport, stop: Event | None) -> None:
        """Ask by their ids, once, for jobs that seem to run although sacct no longer lists them.

        Their ends reached slurmdbd late, after it was unreachable for a while.
        """
        columns = select(jobs.c.job_id, jobs.c.queued, jobs.c.start)
        running = columns.where(jobs.c.cluster == self.source.cluster, jobs.c.state == RUNNING)
        settled = running.where(jobs.c.start < began - _SETTLED_S).order_by(jobs.c.start)
        with self.engine.connect().execution_options(reading=True) as connection:
            starts = {(job_id, queued): start for job_id, queued, start in connection.execute(settled)}
        lost = starts.keys() - listed
        new = [key for key in starts if key in lost and key not in self._asked_again and key[0].isdigit()][:_MOST_IDS]
        if new:
            ids = ",".join(job_id for job_id, _ in new)
            if self._ask(starts[new[0]], self.clock(), report, stop, f"--jobs={ids}") is None:
                return
        self._asked_again = (self._asked_again & lost) | {*new}
