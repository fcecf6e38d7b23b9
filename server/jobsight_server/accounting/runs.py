"""A record of any scheduler's accounting log, and the changes that it makes to the runs of its job.

Applying the same records again, in any chunks, leaves the runs as they are, so a file may be read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, Literal, NamedTuple

from jobsight_server.ground.job_names import is_random

Failure = Literal["memory", "time"]
"""Why the scheduler ended a run, according to its log: it ran out of memory, or of its requested time."""

FAILED_METRIC: Mapping[Failure, str] = {"memory": "memory", "time": "runtime"}
"""The metric in which a failed run's use is a lower bound."""

STATES = RUNNING, ENDED, REQUEUED, DELETED, QUEUED = "running", "ended", "requeued", "deleted", "queued"
"""Every value of ``jobs.state``. A run whose end was never logged stays `running`; ``last_read.is_running`` decides
which count as such."""

NOT_AN_ID = "not a job id"
"""Reason of a record whose job is unknown."""

# The R or D record that ends a run may appear to be this long before its start.
_SLACK_S = 60.0
# A job that Slurm requeues is submitted again when its run ends.
_AGAIN_S = 2.0


class AccountingError(ValueError):
    """An unusable line. ``reason`` is one of a few texts, for counting; the message adds the value and the job."""

    def __init__(self, reason: str, value: str | None = None) -> None:
        self.reason = reason
        self.message = reason if value is None else f"{reason}: {value[:80]!r}"
        self.job_id = ""
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"job {self.job_id[:80]}: {self.message}" if self.job_id else self.message


class UnsettledError(AccountingError):
    """A record that the scheduler has not finished: a later query returns more."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a job: times in UTC epoch seconds, durations in seconds, sizes in bytes, of the whole job.

    ``end`` is None while it runs. ``nodes`` gives each node, as the log writes its name, with its processors.
    ``start`` is infinite while the job waits. Between start and end the run was suspended for ``suspended_s``, on its
    nodes. With ``failure`` "memory", the used memory is a lower bound of the job's need; with "time", its run time.
    ``memory_incomplete``: a step or a task of the job was not measured. ``memory_intervals``: the life of the shortest
    of its steps, in intervals between two samples.
    ``memory_with_cache``: the used memory may contain page cache.
    ``start_unknown``: it began after ``start``, its submission, at an unknown time.

    ``memory_is_virtual``: requested and used memory are address space, else resident; ``other_requested_bytes`` and
    ``other_used_bytes`` are of the other kind (see ``memory_fields``). ``memory_word``: the scheduler's word by which
    it was requested, where there are several.

    ``array_task``: the array and the number of the task, ``13_2``, where the log has another id for it as well.
    ``sluid``: the name of its cgroups on nodes with Slurm 26.05.
    ``asked_processors``, ``asked_memory_bytes`` and ``asked_walltime_s`` are the user's request, where that is known
    and differs from the allocation: the processors of a whole node, a request changed by a submit plugin. 0 if the
    user asked for none.

    ``facts``: as in ``jobs.facts``; ``dropped_facts`` others were unusable. ``gpu_model``, ``used``: as in ``jobs``.
    """

    user: str
    start: float
    end: float | None = None
    group: str | None = None
    account: str | None = None
    name: str | None = None
    queue: str | None = None
    created: float | None = None
    queued: float | None = None
    eligible: float | None = None
    exec_host: str | None = None
    nodes: tuple[tuple[str, int], ...] = ()
    processors: int | None = None
    exit_status: int | None = None
    requested_walltime_s: float | None = None
    requested_memory_bytes: int | None = None
    other_requested_bytes: int | None = None
    requested_nodes: str | None = None
    used_cpu_s: float | None = None
    used_memory_bytes: int | None = None
    other_used_bytes: int | None = None
    used_walltime_s: float | None = None
    failure: Failure | None = None
    suspended_s: float | None = None
    asked_processors: int | None = None
    asked_memory_bytes: int | None = None
    asked_walltime_s: float | None = None
    memory_incomplete: bool | None = None
    memory_intervals: float | None = None
    memory_with_cache: bool | None = None
    memory_is_virtual: bool | None = None
    memory_word: str | None = None
    ended_abnormally: bool | None = None
    start_unknown: bool | None = None
    array_task: str | None = None
    sluid: str | None = None
    facts: str | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    used: str | None = None
    dropped_facts: int = field(default=0, compare=False)


class Amounts(NamedTuple):
    """Memory of the whole job, of one kind: None if it was not requested, or not measured; the request's ``word``."""

    requested: int | None
    used: int | None = None
    word: str | None = None


def memory_fields(resident: Amounts, virtual: Amounts, *, virtual_first: bool = False) -> dict[str, Any]:
    """Return the fields of a run's memory: of the kind that counts, and of the other one.

    The two are never compared: jobs map several times as much address space as they hold in memory. The kind that was
    both requested and measured counts, else the requested one, else the measured one; of two such kinds the resident
    one, or the virtual one where the scheduler limits that (``virtual_first``).

    >>> memory_fields(Amounts(None, 15), Amounts(100, 80))["used_memory_bytes"]
    80
    """
    kinds = (virtual, resident) if virtual_first else (resident, virtual)
    first, second = ((bool(kind.requested), kind.used is not None) for kind in kinds)
    chosen, other = kinds if first >= second else kinds[::-1]
    is_known = any(amount is not None for amount in (*resident[:2], *virtual[:2]))
    return {
        "requested_memory_bytes": chosen.requested,
        "used_memory_bytes": chosen.used,
        "memory_is_virtual": (chosen is virtual) if is_known else None,
        "memory_word": chosen.word,
        "other_requested_bytes": other.requested,
        "other_used_bytes": other.used,
    }


@dataclass(frozen=True, slots=True)
class ParallelTask:
    """The use of one task of a parallel job, if the log records each; ``task`` is its name, empty for the job's first.

    ``host`` is where it ran. Times in UTC epoch seconds.
    """

    task: str
    start: float
    end: float
    host: str | None
    cpu_s: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One record. ``local_s`` is its stamp, the server's wall clock read as if it were UTC (see ``clock_offset``).

    ``utc_s`` is its stamp in UTC, from logs that have it or by ``clock_offset``, which may have guessed the zone.
    With schedulers that give a requeued job a new submission
    time, ``submitted`` identifies the run; with others, its start does.

    ``job_id`` is kept as in the log, including the server's name: a job's prologue knows it in that form.
    ``run`` is set for S and E records of jobs that can run; other kinds and parents of arrays have none.
    ``task``: the use of one task, where a run's use is the sum over tasks.
    """

    kind: str
    job_id: str
    local_s: float
    run: RunRecord | None = None
    array_parent: bool = False
    task: ParallelTask | None = None
    utc_s: float | None = None
    submitted: float | None = None
    zone_guessed: bool = False


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in a scheduler's queue, with its event of kind Q if it waits; ``job_id`` is empty if it is over.

    ``error`` says why an entry, ``data``, cannot be used.
    """

    job_id: str
    event: JobEvent | None = None
    error: AccountingError | None = None
    data: bytes = b""


@dataclass(slots=True)
class StoredRun:
    """One stored run. ``id`` is None while it is new; ``changed`` if it must be written."""

    id: int | None
    state: str
    record: RunRecord
    changed: bool = False
    nodes_changed: bool = False

    def close(self, state: str, end: float) -> None:
        """End the run without an E record of its own."""
        self.state = state
        self.record = replace(self.record, end=max(self.record.start, end))
        self.changed = True

    def differs(self, record: RunRecord) -> bool:
        """Return whether the record changes anything; nodes are stored separately, and compared by the node list."""
        return replace(_merged(self.record, record), nodes=()) != replace(self.record, nodes=())

    def replace(self, state: str, record: RunRecord) -> None:
        """Move to ``state``. Missing values of the record are kept from an earlier one."""
        if self.state == RUNNING:
            record = _with_first_request(self.record, record)
        self.nodes_changed |= record.exec_host not in (None, self.record.exec_host)
        self.state, self.record, self.changed = state, _merged(self.record, record), True


@dataclass(slots=True)
class JobRuns:
    """The runs of one job in order of start, and those to be deleted."""

    runs: list[StoredRun] = field(default_factory=list)
    removed: list[StoredRun] = field(default_factory=list)

    def apply(self, event: JobEvent, utc: float, utc_known: bool) -> str:
        """Apply a record of kind Q, S, E, R, D or A; ``utc`` is its stamp. Return the outcome, for counting."""
        outcome = self._apply(event, utc, utc_known)
        if event.submitted is not None:
            self._requeue_resubmitted()
            self._remove_replaced()
        return outcome

    def _remove_replaced(self) -> None:
        """Remove a waiting run whose job was submitted again since, such as one requeued before its start was seen."""
        newest = max((run.record.queued for run in self.runs if run.record.queued is not None), default=-inf)
        for run in [run for run in self.runs if run.state == QUEUED and (run.record.queued or -inf) < newest]:
            self._remove(run)

    def _remove(self, run: StoredRun) -> None:
        self.runs.remove(run)
        self.removed.append(run)

    def _requeue_resubmitted(self) -> None:
        """Count runs as requeued that ended abnormally when their job was submitted again, as after a failed node."""
        for run in self.runs:
            end, failed = run.record.end, run.record.ended_abnormally and run.record.failure is None
            again = [other.record.queued for other in self.runs if other is not run and other.record.queued is not None]
            if run.state == ENDED and failed and end is not None and any(0 <= at - end <= _AGAIN_S for at in again):
                run.state, run.changed = REQUEUED, True

    def _apply(self, event: JobEvent, utc: float, utc_known: bool) -> str:
        if event.run is not None:
            known = self._find(event.run.start, event.submitted)
            if event.kind == "Q":
                return self._waits(known, event.run)
            if any(run is not known and run.record.start == event.run.start for run in self.runs):
                return "another run of it began at the same time"
            if event.kind == "S":
                return self._started(known, event.run)
            state = REQUEUED if event.kind == "R" else ENDED
            # A later query may return more, as the scheduler records steps one by one.
            return self._ended(known, event.run, state, may_add=event.submitted is not None)
        if event.submitted is not None:
            return self._never_ran(event.submitted)
        closed = REQUEUED if event.kind == "R" else DELETED
        open_runs = [run for run in self.runs if run.state == RUNNING]
        if utc_known:
            open_runs = [run for run in open_runs if run.record.start <= utc + _SLACK_S]
        if not open_runs:
            return "no run of it under way"
        open_runs[-1].close(closed, utc)
        return closed

    def _waits(self, known: StoredRun | None, record: RunRecord) -> str:
        if known is None:
            self._add(QUEUED, record)
            return QUEUED
        changed = _merged(known.record, record)
        if known.state != QUEUED or known.record == changed:
            return "already known"
        known.record, known.changed = changed, True
        return "queued, changed"

    def _never_ran(self, submitted: float) -> str:
        """Apply the end of a job that never ran: it leaves no run."""
        for run in self.runs:
            if run.state == QUEUED and run.record.queued == submitted:
                self._remove(run)
                return "never ran"
        return "never ran, not known"

    def _started(self, known: StoredRun | None, record: RunRecord) -> str:
        if known is None:
            known = self._add(RUNNING, record)
        elif known.state == QUEUED or (known.state == RUNNING and known.record.start != record.start):
            known.replace(RUNNING, record)
        else:
            return "already known"
        self._close_before(record.start)
        later = [other for other in self.runs if record.start < other.record.start < inf]
        if later:
            known.close(REQUEUED, _latest_end(record, later[0].record.start))
            return "requeued"
        return "running"

    def _ended(self, known: StoredRun | None, record: RunRecord, state: str, may_add: bool) -> str:
        if known is None:
            self._add(state, record)
            outcome = f"{state}, its start not seen"
        elif known.state == state and may_add and known.differs(record):
            known.replace(state, record)
            return f"{state}, known better"
        elif known.state == state or known.state == ENDED:
            same = (known.record.end, known.record.exit_status) == (record.end, record.exit_status)
            return "already known" if same else "already ended otherwise"
        else:
            known.replace(state, record)
            outcome = state
        self._close_before(record.start)
        return outcome

    def _close_before(self, start: float) -> None:
        """End earlier runs without an end as requeued: a job has one run at a time, so their R record was lost."""
        for run in self.runs:
            if run.state == RUNNING and run.record.start < start:
                run.close(REQUEUED, _latest_end(run.record, start))

    def _find(self, start: float, submitted: float | None) -> StoredRun | None:
        if submitted is not None:
            return next((run for run in self.runs if run.record.queued == submitted), None)
        begun = next((run for run in self.runs if run.record.start == start), None)
        # The job that the queue listed as waiting has begun.
        return begun or next((run for run in self.runs if run.state == QUEUED), None)

    def _add(self, state: str, record: RunRecord) -> StoredRun:
        run = StoredRun(None, state, record, changed=True, nodes_changed=bool(record.nodes))
        self.runs.append(run)
        self.runs.sort(key=lambda other: other.record.start)
        return run


def _latest_end(record: RunRecord, next_start: float) -> float:
    """Return the latest possible end of a run whose end is unknown."""
    walltime_s = record.requested_walltime_s
    return next_start if walltime_s is None else min(next_start, record.start + walltime_s)


def _with_first_request(started: RunRecord, record: RunRecord) -> RunRecord:
    """Return ``record`` with the request at the start as the user's, if it was reduced while the job ran.

    Slurm 26.05 reduces a running job's memory, by command or after some time.
    """
    first, last = started.requested_memory_bytes or 0, record.requested_memory_bytes or 0
    same = started.memory_is_virtual == record.memory_is_virtual and started.processors == record.processors
    if not 0 < last < first or not same or started.asked_memory_bytes is not None:
        return record
    return replace(record, asked_memory_bytes=record.asked_memory_bytes or first)


def _merged(older: RunRecord, newer: RunRecord) -> RunRecord:
    """Return ``newer``, with missing values filled in from ``older``."""
    kept: dict[str, Any] = {}
    for column in fields(RunRecord):
        if getattr(newer, column.name) in (None, ()):
            kept[column.name] = getattr(older, column.name)
    if older.name and newer.name and is_random(newer.name):  # an earlier record had the comment, which is more precise
        kept["name"] = older.name
    return replace(newer, **kept)
