"""Data from the accounting logs: runs of jobs, their nodes, the files, and unusable lines."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    and_,
    case,
    func,
    literal_column,
    or_,
)

from jobsight_server.storage.schema.metadata import index_where, keys, metadata, optional, required

_IS_TASK = "array_task IS NOT NULL"
# Only these: SQLite would use an index of every state instead of the one by state, which has few running jobs.
_IS_ENDED = "state = 'ended'"

# One row per run of a job: a requeued job has several, distinguished by their start. asked_*: the user's own request,
# if the log has it and it differs from the allocation: ``processors`` (of a whole node), or ``requested_*`` that a
# submit plugin has changed; NULL otherwise, and 0 without a request. state: running (or its end was never logged),
# ended, requeued, deleted (a run whose D record came before any E).
jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "job_id"),
    Column("start", Double, nullable=False),
    Column("end", Double, index=True),
    *required(Text, "state", "user"),
    *optional(Text, "group", "account", "name", "queue"),
    *optional(Double, "created", "queued", "eligible"),
    Column("exec_host", Text),
    *optional(Integer, "processors", "exit_status"),
    Column("requested_walltime_s", Double),
    Column("requested_memory_bytes", BigInteger),
    Column("requested_nodes", Text),
    Column("used_cpu_s", Double),
    Column("used_memory_bytes", BigInteger),
    Column("used_walltime_s", Double),
    Column("failure", Text),  # "memory" or "time" if the run ran out of it, by the log
    Column("asked_processors", Integer),
    Column("asked_memory_bytes", BigInteger),
    Column("asked_walltime_s", Double),
    Column("memory_incomplete", Boolean),  # a step or task was not measured: the job used more than used_memory_bytes
    Column("memory_intervals", Double),  # the life of its shortest step, in intervals between the log's samples
    Column("memory_with_cache", Boolean),  # used_memory_bytes may contain page cache
    Column("memory_is_virtual", Boolean),  # requested and used memory are address space, as of TORQUE's vmem and pvmem
    Column("memory_word", Text),  # pvmem, pmem, h_vmem: by which memory was requested, if the scheduler has several
    Column("other_requested_bytes", BigInteger),  # of the other kind: resident if memory_is_virtual, else address space
    Column("other_used_bytes", BigInteger),
    Column("ended_abnormally", Boolean),  # by the log; an exit status other than 0 means the same
    Column("start_unknown", Boolean),  # it began after start, its submission
    Column("array_task", Text),  # 13_2, if the log also has another id of the task
    Column("sluid", Text),  # the name of the job's cgroups on nodes with Slurm 26.05
    Column("suspended_s", Double),  # of the time between start and end
    Column("facts", Text),  # JSON, name -> number: further data of the job
    Column("gpus", Integer),  # allocated, or requested while the job waits; NULL for none
    Column("gpu_model", Text),  # of its GPUs by the log, empty if that does not say; NULL for none
    Column("used", Text),  # JSON, metric -> use of the whole job by the log, of metrics without a column here
    Column("recorded_at", Double, nullable=False, index=True),  # when the record of the state was read
    Column("profiled", Boolean, nullable=False),
    Column("submitted", Double),  # queued, or else created, or else start
    Column("forecast_seq", BigInteger),  # the last profiles.learn_seq at its forecast
    Column("start_seq", BigInteger),  # the same at the forecast of the run's start
    Column("application", Text, index=True),  # application by the name (facts.application); NULL for none
    Column("peak_memory_bytes", Double),  # profiles.value of its memory, with which an index has it; NULL for none
    UniqueConstraint("cluster", "job_id", "start"),
    Index(None, "cluster", "user", "end"),
    index_where(_IS_ENDED, "cluster", "user", "application", "end"),
    Index(None, "cluster", "end"),
    Index(None, "profiled", "state", "end"),
    Index(None, "forecast_seq", "submitted"),
    Index(None, "start_seq", "start"),
    Index(None, "state"),
    index_where(_IS_TASK, "array_task"),
    Index(None, "job_id"),
    index_where("failure IS NOT NULL", "end", name="ix_jobs_killed"),
    index_where("used IS NOT NULL", "cluster", "gpu_model", "used"),
    Index(None, "cluster", "user", "id"),
    Index(None, "cluster", "id"),
)

# An index on an expression is found by the same text: with literals, as parameters have no values when it is planned.
_ZERO: ColumnElement[Any] = literal_column("0")
ASKED_PROCESSORS = func.coalesce(func.nullif(jobs.c.asked_processors, _ZERO), jobs.c.processors)
ASKED_MEMORY = func.coalesce(jobs.c.asked_memory_bytes, jobs.c.requested_memory_bytes)
ASKED_WALLTIME = func.coalesce(jobs.c.asked_walltime_s, jobs.c.requested_walltime_s)
"""The user's request, not the allocation, as in questions."""

took_s = jobs.c.end - jobs.c.start - func.coalesce(jobs.c.suspended_s, _ZERO)
"""Seconds that a run took, without suspensions."""
Index("ix_jobs_took_s", took_s)
is_ended = jobs.c.state == literal_column("'ended'")
"""Written as the index of ended runs has it: with a parameter, SQLite would not use that."""


def memory_share(*peaks: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a run's use of memory as a share of the user's request, by its known one of ``peaks`` per processor, or
    else as logged."""
    known = (peak * ASKED_PROCESSORS for peak in peaks)
    used = func.coalesce(*known, jobs.c.used_memory_bytes * literal_column("1.0"))
    return used / func.nullif(ASKED_MEMORY, _ZERO)


MEMORY_SHARE = memory_share(jobs.c.peak_memory_bytes)
TIME_SHARE = took_s / func.nullif(ASKED_WALLTIME, _ZERO)
"""An ended run's use as a share of the user's request."""


def _word(text: str) -> ColumnElement[str]:
    return literal_column(f"'{text}'", Text)


_DELETED_STATUS = literal_column("271", Integer)  # 256 + SIGTERM, as PBS and TORQUE write it for a deleted job
OUTCOME = func.coalesce(
    case(
        (jobs.c.failure.is_not(None), _word("killed: ") + jobs.c.failure),
        (jobs.c.state == _word("queued"), _word("waiting")),
        (or_(jobs.c.state == _word("running"), jobs.c.state == _word("requeued")), jobs.c.state),
        (or_(jobs.c.state == _word("deleted"), jobs.c.exit_status == _DELETED_STATUS), _word("cancelled")),
        (and_(jobs.c.ended_abnormally, jobs.c.exit_status.is_(None)), _word("cancelled")),
        (or_(jobs.c.exit_status != _ZERO, jobs.c.ended_abnormally), _word("failed")),
        (jobs.c.exit_status == _ZERO, _word("completed")),
    ),
    _word("ended"),
)
"""The state in words, ``outcome`` of a run on the pages."""

for _name, _value in (("memory_share", MEMORY_SHARE), ("time_share", TIME_SHARE), ("outcome", OUTCOME)):
    Index(f"ix_jobs_{_name}", _value, jobs.c.id)

# Numbers of runs by user, application and state, updated with every change of ``jobs`` (storage.event_counts).
# ``first_start`` and ``last_end`` are the earliest and latest of a user's over all states; ``key`` is a digest of the
# names.
job_counts = Table(
    "job_counts",
    metadata,
    Column("key", Text, primary_key=True),
    *required(Text, "cluster", "user"),
    *optional(Text, "group", "account"),
    Column("state", Text, nullable=False),
    Column("profiled", Boolean, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("first_start", Double, nullable=False),
    Column("last_end", Double),
    Index(None, "cluster", "user"),
)

# Node names as the accounting log writes them; the node may never have sent a sample.
job_nodes = Table(
    "job_nodes",
    metadata,
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("node", Text, primary_key=True, index=True),
    Column("processors", Integer, nullable=False),
    sqlite_with_rowid=False,
)

# Tasks of parallel jobs, from logs that record each of them: a run's use is the sum over its tasks. ``task`` is empty
# for the job's own record.
parallel_tasks = Table(
    "parallel_tasks",
    metadata,
    *keys(Text, "cluster", "job_id", "task"),
    Column("start", Double, primary_key=True),
    Column("end", Double, nullable=False),
    Column("host", Text),
    Column("cpu_s", Double),
    Column("memory_bytes", BigInteger),
    sqlite_with_rowid=False,
)

# Position in each accounting file, committed with the rows from it. ``counts``: its part of the event counts, as JSON
# [name, label, value].
accounting_files = Table(
    "accounting_files",
    metadata,
    *keys(Text, "cluster", "path"),
    Column("head_digest", Text, nullable=False),  # of the file's first bytes: reveals a new file of the same name
    Column("content_digest", Text, nullable=False, server_default=""),  # of these and the last bytes before the offset
    Column("stat", Text, nullable=False, server_default=""),  # when all of it was read; empty before
    Column("log_format", Text, nullable=False, server_default=""),  # given or guessed; empty if not known
    *required(BigInteger, "offset", "lines"),
    Column("updated", Double, nullable=False),
    Column("counts", Text, nullable=False, server_default="[]"),
)

# Last reading of each log, even without new lines; noted a few times a minute.
log_reads = Table(
    "log_reads",
    metadata,
    *keys(Text, "cluster", "source"),
    Column("at", Double, nullable=False),
    sqlite_with_rowid=False,
)

accounting_rejects = Table(
    "accounting_rejects",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "path"),
    Column("line", BigInteger, nullable=False),
    *required(Text, "reason", "text"),
    UniqueConstraint("cluster", "path", "line"),
)
