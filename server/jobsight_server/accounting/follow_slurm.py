"""Follows started jobs of a Slurm by its command ``sacct``; ``follow_queue`` follows waiting ones.

Each query asks sacct for changes since the last answer, and for a while before that, as jobs reach slurmdbd late.
Records of the last answer are skipped, so that each is counted once. An answer that could not be read to its end
counts as a failure, and the next query reaches back to the last complete one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil
from threading import Event

from sqlalchemy import Connection, select

from jobsight_server.accounting.command_output import CommandError, CommandOutput, CommandSource
from jobsight_server.accounting.files import PIECE_BYTES, RawRecord, RecordReader, exactly
from jobsight_server.accounting.follow_queue import RunKey
from jobsight_server.accounting.formats import BEGINNING_BYTES, slurm_reader
from jobsight_server.accounting.load import LoadReport, ParsedChunk, store_chunk
from jobsight_server.accounting.parsers.slurm.reader import JSON_FORM
from jobsight_server.accounting.position import Position, positions, set_position
from jobsight_server.accounting.runs import RUNNING, AccountingError, JobEvent, UnsettledError
from jobsight_server.accounting.store import Reject, lock_cluster
from jobsight_server.storage.schema import jobs

SACCT = ("--allusers", "--duplicates", "--json", "--starttime", "now-{seconds}")
"""Added to the command ``sacct``, unless it contains ``{seconds}`` itself."""

SACCT_NAME = "command sacct"
"""Name of the command without arguments, where other sources have the name of a file."""

_SECONDS = "{seconds}"
# For a job that ended after sacct was queried.
_SETTLED_S = 60.0
# Unfinished records of slurmdbd are read again for so long.
_UNSETTLED_S = 600.0

"""Job id and submission."""


@dataclass(slots=True)
class SlurmFollower(CommandSource):
    """Reads one Slurm into the database of ``engine``, and remembers the last answer."""

    _events: dict[RunKey, JobEvent] = field(default_factory=dict)
    _rejected: set[bytes] = field(default_factory=set)
    _asked_again: set[RunKey] = field(default_factory=set)
    _unsettled: dict[str, float] = field(default_factory=dict)
    _back_to: float | None = None

    def read(self, stop: Event | None = None) -> LoadReport:
        """Run the command and store new records. Failures are counted and reported."""
        return self.attempt(SACCT_NAME, lambda report: self._read_sacct(report, stop))

    def _read_sacct(self, report: LoadReport, stop: Event | None) -> None:
        began = self.clock()
        with self.engine.connect().execution_options(reading=True) as connection:
            since = float(self._position(connection).offset or began - self.source.history_s)
        back_to = min(since - self.source.overlap_s, began if self._back_to is None else self._back_to)
        arguments = _with_seconds(self.source.sacct, SACCT, ceil(max(began - back_to, 1.0)))
        seen: dict[RunKey, JobEvent] = {}
        rejected: set[bytes] = set()
        with CommandOutput(arguments, self.source.timeout_s, stop) as output:
            beginning = exactly(output.read, BEGINNING_BYTES)
            reader, tail = slurm_reader(beginning), b""
            pieces = chain([beginning], iter(partial(output.read, PIECE_BYTES), b""))
            if reader.missing:
                raise CommandError(reader.missing)
            for chunk in reader.split(lambda _: next(pieces, b"")):
                if output.stopped:
                    return
                tail = chunk.tail
                if not reader.by_lines:  # else an error message rather than records
                    self._take_in(reader, chunk.records, seen, rejected, report)
            if output.stopped:
                return
            output.finish()
        # A command may succeed and print nothing.
        is_whole = reader.form == JSON_FORM and b'"jobs"' in beginning and tail.rstrip().endswith(b"}")
        if reader.resumed is None and not is_whole:
            raise CommandError("its output is neither a whole JSON document with a list of jobs nor text with a header")
        self._events, self._rejected = seen, rejected
        with self.engine.begin() as connection:
            lock_cluster(connection, self.source.cluster)
            # Everything until then has been queried and stored.
            set_position(
                connection, self.source.cluster, replace(self._position(connection), offset=int(began)), self.clock()
            )
            self._look_for_lost(connection, seen, began)

    def _take_in(
        self,
        reader: RecordReader,
        records: Sequence[RawRecord],
        seen: dict[RunKey, JobEvent],
        rejected: set[bytes],
        report: LoadReport,
    ) -> None:
        """Store one chunk in one transaction, without the records that were the same in the last answer."""
        events: list[JobEvent] = []
        reasons: list[tuple[AccountingError, RawRecord]] = []
        for record in records:
            try:
                event = reader.event(record)
            except AccountingError as error:
                if not record.complete:
                    raise CommandError("its output ends within a record") from error
                if isinstance(error, UnsettledError) and self._may_settle(error.job_id):
                    continue
                rejected.add(record.data[:1000])
                if record.data[:1000] not in self._rejected:
                    reasons.append((error, record))
                continue
            key = (event.job_id, event.submitted)
            seen[key] = event
            if self._events.get(key) != event:
                events.append(event)
        if not events and not reasons:
            return
        with self.engine.begin() as connection:
            lock_cluster(connection, self.source.cluster)
            position = self._position(connection)
            first = position.lines + len(events) + 1
            rejects = tuple(
                Reject(number, error.reason, str(error), record.data)
                for number, (error, record) in enumerate(reasons, first)
            )
            now = self.clock()
            parsed = ParsedChunk(tuple(events), rejects)
            counts = Counter(position.counts)
            counts.update(store_chunk(connection, self.source.cluster, SACCT_NAME, parsed, now, report))
            lines = position.lines + len(events) + len(rejects)
            set_position(connection, self.source.cluster, replace(position, lines=lines, counts=counts), now)

    def _position(self, connection: Connection) -> Position:
        """Return the time up to which everything has been queried, 0 for none, and the counted records."""
        found = positions(connection, self.source.cluster, SACCT_NAME).get(SACCT_NAME)
        return found or Position(SACCT_NAME)

    def _may_settle(self, job_id: str) -> bool:
        """Return whether an unfinished record of the job is still worth waiting for."""
        now = self.clock()
        self._unsettled = {job: since for job, since in self._unsettled.items() if now - since < 2 * _UNSETTLED_S}
        return now - self._unsettled.setdefault(job_id, now) < _UNSETTLED_S

    def _look_for_lost(self, connection: Connection, seen: dict[RunKey, JobEvent], began: float) -> None:
        """Make the next query reach back to jobs that seem to run although sacct no longer lists them.

        Their ends reached slurmdbd late, after it was unreachable for a while. Each is queried once.
        """
        columns = select(jobs.c.job_id, jobs.c.queued, jobs.c.start)
        running = columns.where(jobs.c.cluster == self.source.cluster, jobs.c.state == RUNNING)
        lost = {
            (job_id, queued): start
            for job_id, queued, start in connection.execute(running)
            if start < began - _SETTLED_S and (job_id, queued) not in seen
        }
        new = [start for key, start in lost.items() if key not in self._asked_again]
        self._asked_again = set(lost)
        self._back_to = min(new, default=None)


def _with_seconds(command: Sequence[str], more: Sequence[str], seconds: int) -> list[str]:
    whole = command if any(_SECONDS in argument for argument in command) else (*command, *more)
    return [argument.replace(_SECONDS, str(seconds)) for argument in whole]
