"""Records of an accounting log, independent of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass


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
