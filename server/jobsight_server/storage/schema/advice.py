"""Requests and recommendations: totals by day, week and month, changes of waiting jobs."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from jobsight_server.storage.schema.metadata import index_where, keys, metadata, optional, required

# Groups by user and application: a field is empty if missing in the log, or left out by the level of a total.
savings_groups = Table(
    "savings_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "user", "application", "queue", "account"),
    UniqueConstraint("cluster", "user", "application", "queue", "account"),
)

# Sums over the jobs of a group that ended within a period (savings.sums.add says what each is). level: group, that is
# cluster, user, application, queue and account, or the cluster and one of these, or the cluster alone. period: day,
# month or, of users, week; ``first_day``: its first day, counted from 1970-01-01 UTC. A row of a month or week is the
# sum of its days' rows, so that a year is read from twelve rows of each group. metric: memory (byte seconds), runtime
# or cpu (processor seconds).
savings = Table(
    "savings",
    metadata,
    *keys(Text, "metric", "level", "period"),
    *keys(Integer, "first_day", "group_id"),
    Column("jobs", BigInteger, nullable=False),
    *required(Double, "weight", "requested", "used", "reserved", "request_held", "bound_held"),
    *required(BigInteger, "needed_more", "request_failures", "bound_failures"),
    *required(BigInteger, "without_request", "without_use", "without_bound"),
    sqlite_with_rowid=False,
)

# Accuracy of forecasts at submission (columns as in savings.sums.kept), by day and by week from Monday on;
# level: cluster, user or application of ``savings_groups``. Accuracy in millionths.
forecast_scores = Table(
    "forecast_scores",
    metadata,
    *keys(Text, "metric", "level", "period"),
    *keys(Integer, "first_day", "group_id"),
    *required(BigInteger, "jobs", "accuracy", "within20", "bounds", "held"),
    Index(None, "level", "group_id", "period", "first_day"),
    sqlite_with_rowid=False,
)

# Jobs by how long they waited from submission to start, by day and month and by queue; metric: the class of the wait
# (savings.sums.kept), the other columns as in ``savings``.
waits = Table(
    "waits",
    metadata,
    *keys(Text, "level", "period"),
    Column("first_day", Integer, primary_key=True),
    Column("group_id", Integer, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Days whose totals must be recomputed, because the use of their jobs now counts differently.
savings_to_do = Table("savings_to_do", metadata, Column("day", Integer, primary_key=True))


# A forecast as of now that has moved since the submission, or since the last such row; in the unit of the metric.
forecast_changes = Table(
    "forecast_changes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("time", Double, nullable=False, index=True),
    Column("metric", Text, nullable=False),
    *optional(Double, "old_forecast", "new_forecast", "old_bound", "new_bound"),
    sqlite_autoincrement=True,
)

_OF_JOB = ("cluster", "job_id", "resource")
_OPEN = "state IN ('begun', 'undoing')"

# Changes by `jobsight adjust`: a row is written before the scheduler's command, and settled after it. resource: memory
# or runtime. parameter: the scheduler's own name of the changed resource, such as MinMemoryNode or walltime; ``old``
# and ``new`` are its values in bytes or seconds, which the job has ``times``. state: begun, done, failed (the scheduler
# refused), not made (it was begun and had no effect), lost (the job is gone, or someone else has changed it), undoing,
# undone.
adjustments = Table(
    "adjustments",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "job_id", "user"),
    Column("submitted", Double, nullable=False),
    *required(Text, "resource", "parameter"),
    *required(BigInteger, "old", "new", "times"),
    *required(Text, "reason", "state"),
    Column("begun", Double, nullable=False),
    Column("settled", Double),
    Column("error", Text),
    Index(None, *_OF_JOB),
    index_where(_OPEN, *_OF_JOB, name="ix_adjustments_open", unique=True),
)

# Jobs that `jobsight adjust --trial` has assigned at random: ``arm`` is advice or none, ``seed`` that of the draw.
trial_jobs = Table(
    "trial_jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "job_id", "user"),
    Column("submitted", Double, nullable=False),
    *required(Text, "seed", "arm"),
    Column("assigned", Double, nullable=False),
    UniqueConstraint("cluster", "job_id", "submitted", "seed"),
)
