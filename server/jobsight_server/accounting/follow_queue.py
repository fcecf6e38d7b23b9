"""Follows the waiting jobs by the scheduler's own command: ``squeue`` or ``qstat``.

Each list replaces the last one: a job that is no longer listed left without a record, and is removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from sqlalchemy import Connection, delete, select

from jobsight_server.accounting.command_output import CommandError, CommandOutput, CommandSource
from jobsight_server.accounting.load import LoadReport, ParsedChunk, store_chunk
from jobsight_server.accounting.parsers import qstat_json, qstat_xml
from jobsight_server.accounting.parsers.qstat import Qstat
from jobsight_server.accounting.parsers.slurm import squeue
from jobsight_server.accounting.runs import NOT_AN_ID, QUEUED, AccountingError, JobEvent, ListedJob
from jobsight_server.accounting.store import Reject, lock_cluster
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import RUNS, of_runs
from jobsight_server.storage.job_counts import recounted
from jobsight_server.storage.schema import jobs

SETTLED_S = 60.0
"""Time for a job that has just begun: neither the queue nor the log has it for a moment."""

_PIECE = 1 << 16
_LONGEST_VALUE = 1 << 16
_LONGEST_DOCUMENT = 1 << 29

RunKey = tuple[str, float | None]
"""Job id and submission."""

Run = Callable[[Sequence[str]], CommandOutput]
"""Starts a command."""

Parsed = dict[int, ListedJob]
"""Digest of each row of the last list -> its job."""


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """``read`` adds the arguments to a command, runs it, and returns the listed jobs.

    It raises CommandError, perhaps after some of them. ``name`` is the source's name, like that of a file.
    """

    name: str
    read: Callable[[Run, Sequence[str], Parsed], Iterator[ListedJob]]


def squeue_rows(run: Run, command: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield the values of each job that ``squeue`` lists, in the order of ``squeue.WIDTHS``.

    The mark between them is drawn for each call, so that no name can contain it.

    Raises:
        CommandError: the command failed, or its output does not end after a job.
    """
    mark = f"|{secrets.token_hex(8)}|"
    end, columns = mark.encode(), len(squeue.WIDTHS)
    left, row = b"", list[bytes]()
    with run((*command, *squeue.arguments(mark))) as output:
        while piece := output.read(_PIECE):
            *values, left = (left + piece).split(end)
            for value in values:
                row.append(value)
                if len(row) == columns:
                    yield row
                    row = []
            if len(left) > _LONGEST_VALUE:
                raise CommandError("its output is not in the form that was asked for")
        if output.stopped:
            return
        output.finish()
    if row or left.strip():
        raise CommandError("its output is not in the form that was asked for, or ends within a job")


def _squeue(run: Run, command: Sequence[str], parsed: Parsed) -> Iterator[ListedJob]:
    """Yield the jobs; rows that were the same in the last list are not parsed again."""
    found: Parsed = {}
    for row in squeue_rows(run, command):
        digest = hash(tuple(row))
        found[digest] = job = parsed.get(digest) or squeue.listed(row)
        yield job
    parsed.clear()
    parsed.update(found)


def _whole(qstat: Qstat) -> Callable[[Run, Sequence[str], Parsed], Iterator[ListedJob]]:
    def read(run: Run, command: Sequence[str], _: Parsed) -> Iterator[ListedJob]:
        with run((*command, *qstat.arguments)) as output:
            document = output.whole(_LONGEST_DOCUMENT)
        if output.stopped:
            return
        try:
            yield from qstat.entries(document)
        except AccountingError as error:
            raise CommandError(error.reason, error.message) from error

    return read


QUEUE_COMMANDS = {
    "slurm": QueueCommand("command squeue", _squeue),
    "pbspro": QueueCommand("command qstat", _whole(qstat_json.QSTAT)),
    "torque": QueueCommand("command qstat", _whole(qstat_xml.QSTAT)),
}
"""Queue command by the format of the cluster's accounting."""


@dataclass(slots=True)
class QueueFollower(CommandSource):
    """Reads one queue into the database of ``engine``, and remembers the last look."""

    _waiting: dict[RunKey, JobEvent] = field(default_factory=dict)
    _parsed: Parsed = field(default_factory=dict)

    def read(self, stop: Event | None = None) -> LoadReport:
        """Run the command and store the changes. Failures are counted and reported."""
        name = QUEUE_COMMANDS[self.source.scheduler].name
        return self.attempt(name, lambda report: self._read(name, report, stop))

    def _read(self, name: str, report: LoadReport, stop: Event | None) -> None:
        began, cluster = self.clock(), self.source.cluster
        run = partial(CommandOutput, timeout_s=self.source.timeout_s, stop=stop)
        known: set[str] = set()
        waiting: dict[RunKey, JobEvent] = {}
        rejects: list[Reject] = []
        is_whole = True
        for job in QUEUE_COMMANDS[self.source.scheduler].read(run, self.source.queue_command, self._parsed):
            known.add(job.job_id)
            if job.error is not None:
                is_whole = is_whole and job.error.reason != NOT_AN_ID  # its job may be any
                rejects.append(Reject(len(rejects) + 1, job.error.reason, str(job.error), job.data))
            elif job.event is not None and job.event.run is not None:
                waiting[job.job_id, job.event.run.queued] = job.event
        if stop is not None and stop.is_set():
            return
        changed = [event for key, event in waiting.items() if self._waiting.get(key) != event]
        with self.engine.begin() as connection:
            lock_cluster(connection, cluster)
            store_chunk(connection, cluster, name, ParsedChunk(changed, rejects), began, report)
            if is_whole:
                remove_gone(connection, cluster, known, began - SETTLED_S)
        self._waiting = waiting


def remove_gone(connection: Connection, cluster: str, known: Collection[str], before: float) -> int:
    """Remove jobs submitted before ``before`` that waited and are not ``known``; return their number.

    They were cancelled before they began, and left no record.
    """
    queued = select(jobs.c.id, jobs.c.job_id, jobs.c.submitted).where(jobs.c.cluster == cluster, jobs.c.state == QUEUED)
    gone = [
        run_id
        for run_id, job_id, since in connection.execute(queued)
        if job_id not in known and (since or 0.0) < before
    ]
    with recounted(connection, gone):
        of_runs(connection, delete(jobs).where(jobs.c.id.in_(RUNS)), gone)
    if gone:
        add_event_counts(connection, {("accounting_queued_gone", ""): len(gone)})
    return len(gone)
