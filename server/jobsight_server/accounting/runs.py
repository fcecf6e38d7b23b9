"""What a record of an accounting log says, whatever the scheduler, and what it does to the runs of its job.

Applying the same records again, in any chunks, leaves the runs as they are, so a file may be read twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

STATES = RUNNING, ENDED, REQUEUED, DELETED = "running", "ended", "requeued", "deleted"
"""Every value of ``jobs.state``. A run whose end was never logged stays `running`: nothing proves that it has ended."""

# How far before a run's start the R or D record that ends it may appear to be.
_SLACK_S = 60.0


class AccountingError(ValueError):
    """An unusable line. ``reason`` is one of a few texts, and is counted; the message adds the value."""

    def __init__(self, reason: str, value: str | None = None) -> None:
        shown = "" if value is None else f": {value[:80]!r}"
        super().__init__(reason + shown)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a job: times in UTC epoch seconds, durations in seconds, sizes in bytes, of the whole job.

    ``end`` is None while it runs. ``nodes`` gives each node, as the log writes its name, with its processors.
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
    requested_nodes: str | None = None
    used_cpu_s: float | None = None
    used_memory_bytes: int | None = None
    used_walltime_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One line. ``local_s`` is its stamp, the server's wall clock read as if it were UTC (see ``clock_offset``).

    ``job_id`` is kept as in the log, including the server's name: a job's prologue knows it in that form.
    ``run`` is set for S and E records of jobs that can run; other kinds and parents of arrays have none.
    """

    kind: str
    job_id: str
    local_s: float
    run: RunRecord | None = None
    array_parent: bool = False


@dataclass(slots=True)
class StoredRun:
    """One stored run. ``id`` is None while it is new; ``changed`` if it has to be written."""

    id: int | None
    state: str
    record: RunRecord
    changed: bool = False
    nodes_changed: bool = False

    def close(self, state: str, end: float) -> None:
        """Ends the run without an E record of its own."""
        self.state = state
        self.record = replace(self.record, end=max(self.record.start, end))
        self.changed = True


@dataclass(slots=True)
class JobRuns:
    """The runs of one job in order of their start."""

    runs: list[StoredRun] = field(default_factory=list)

    def apply(self, event: JobEvent, utc: float, utc_known: bool) -> str:
        """Applies a record of kind S, E, R, D or A; ``utc`` is its stamp. Returns the outcome, for counting."""
        if event.run is not None:
            if event.kind == "S":
                return self._started(event.run)
            return self._ended(event.run, REQUEUED if event.kind == "R" else ENDED)
        state = REQUEUED if event.kind == "R" else DELETED
        open_runs = [run for run in self.runs if run.state == RUNNING]
        if utc_known:
            open_runs = [run for run in open_runs if run.record.start <= utc + _SLACK_S]
        if not open_runs:
            return "no run of it under way"
        open_runs[-1].close(state, utc)
        return state

    def _started(self, record: RunRecord) -> str:
        if self._find(record.start) is not None:
            return "already known"
        run = self._add(RUNNING, record)
        self._close_before(record.start)
        later = [other for other in self.runs if other.record.start > record.start]
        if later:
            run.close(REQUEUED, _latest_end(record, later[0].record.start))
            return "requeued"
        return "running"

    def _ended(self, record: RunRecord, state: str) -> str:
        run = self._find(record.start)
        if run is None:
            self._add(state, record)
            outcome = f"{state}, its start not seen"
        elif run.state == state or run.state == ENDED:
            same = (run.record.end, run.record.exit_status) == (record.end, record.exit_status)
            return "already known" if same else "already ended otherwise"
        else:
            # What the E record leaves out was in the S record.
            run.nodes_changed |= record.exec_host not in (None, run.record.exec_host)
            run.state, run.record, run.changed = state, _merged(run.record, record), True
            outcome = state
        self._close_before(record.start)
        return outcome

    def _close_before(self, start: float) -> None:
        """A job runs once at a time: earlier runs without an end were requeued, and the R record is lost."""
        for run in self.runs:
            if run.state == RUNNING and run.record.start < start:
                run.close(REQUEUED, _latest_end(run.record, start))

    def _find(self, start: float) -> StoredRun | None:
        return next((run for run in self.runs if run.record.start == start), None)

    def _add(self, state: str, record: RunRecord) -> StoredRun:
        run = StoredRun(None, state, record, changed=True, nodes_changed=bool(record.nodes))
        self.runs.append(run)
        self.runs.sort(key=lambda other: other.record.start)
        return run


def _latest_end(record: RunRecord, next_start: float) -> float:
    """The latest possible end of a run whose end is unknown."""
    walltime_s = record.requested_walltime_s
    return next_start if walltime_s is None else min(next_start, record.start + walltime_s)


def _merged(older: RunRecord, newer: RunRecord) -> RunRecord:
    """``newer``, with missing values filled in from ``older``."""
    kept: dict[str, Any] = {}
    for column in fields(RunRecord):
        if getattr(newer, column.name) in (None, ()):
            kept[column.name] = getattr(older, column.name)
    return replace(newer, **kept)
