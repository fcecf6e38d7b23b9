"""Requests and recommendations: totals by day and month, memory given to submissions, changes of waiting jobs."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, Table, Text, UniqueConstraint, text

from jobsight_server.storage.schema.metadata import metadata

# Memory given to one submission of a job. ``outcome``: null while it is open, then finished or failed.
requirements = Table(
    "requirements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("requested_bytes", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("outcome", Text),
    Column("used_bytes", BigInteger),
)

# Learned from outcomes without measured use: the parts of the state of an estimator, as JSON.
requirement_state = Table(
    "requirement_state",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)


# Groups by user and application: a field is empty if missing in the log, or left out by the level of a total.
savings_groups = Table(
    "savings_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("application", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("account", Text, nullable=False),
    UniqueConstraint("cluster", "user", "application", "queue", "account"),
)

# Sums over the jobs of a group that ended within a period (savings.totals says what each is). level: group, that is
# cluster, user, application, queue and account, or the cluster and one of these, or the cluster alone. period: day or
# month; ``first_day``: its first day, counted from 1970-01-01 UTC. A month's row is the sum of its days' rows, so that
# a year is read from twelve rows of each group. metric: memory (byte seconds), runtime or cpu (processor seconds).
savings = Table(
    "savings",
    metadata,
    Column("metric", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("first_day", Integer, primary_key=True),
    Column("group_id", Integer, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("weight", Double, nullable=False),
    Column("requested", Double, nullable=False),
    Column("used", Double, nullable=False),
    Column("reserved", Double, nullable=False),
    Column("request_held", Double, nullable=False),
    Column("bound_held", Double, nullable=False),
    Column("request_failures", BigInteger, nullable=False),
    Column("bound_failures", BigInteger, nullable=False),
    Column("without_request", BigInteger, nullable=False),
    Column("without_use", BigInteger, nullable=False),
    Column("without_bound", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Accuracy of forecasts at submission (columns as in savings.scores), by day and by week from Monday on;
# level: cluster, user or application of ``savings_groups``. Accuracy in millionths.
forecast_scores = Table(
    "forecast_scores",
    metadata,
    Column("metric", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("first_day", Integer, primary_key=True),
    Column("group_id", Integer, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("accuracy", BigInteger, nullable=False),
    Column("within20", BigInteger, nullable=False),
    Column("bounds", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Index(None, "level", "group_id", "period", "first_day"),
    sqlite_with_rowid=False,
)

# Days whose totals must be recomputed, because the use of their jobs now counts differently.
savings_to_do = Table("savings_to_do", metadata, Column("day", Integer, primary_key=True))


# A forecast as of now that has moved since the submission, or since the last such row; in the unit of the metric.
forecast_changes = Table(
    "forecast_changes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("time", Double, nullable=False),
    Column("metric", Text, nullable=False),
    Column("old_forecast", Double),
    Column("new_forecast", Double),
    Column("old_bound", Double),
    Column("new_bound", Double),
    Index(None, "run_id"),
    Index(None, "time"),
    sqlite_autoincrement=True,
)

_OF_JOB = ("cluster", "job_id", "resource")
_OPEN = text("state IN ('begun', 'undoing')")

# Changes by `jobsight adjust`: a row is written before the scheduler's command, and settled after it. resource: memory
# or runtime. parameter: the scheduler's own name of the changed resource, such as MinMemoryNode or walltime; ``old``
# and ``new`` are its values in bytes or seconds, which the job has ``times``. state: begun, done, failed (the scheduler
# refused), not made (it was begun and had no effect), lost (the job is gone, or someone else has changed it), undoing,
# undone.
adjustments = Table(
    "adjustments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("submitted", Double, nullable=False),
    Column("resource", Text, nullable=False),
    Column("parameter", Text, nullable=False),
    Column("old", BigInteger, nullable=False),
    Column("new", BigInteger, nullable=False),
    Column("times", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("begun", Double, nullable=False),
    Column("settled", Double),
    Column("error", Text),
    Index(None, *_OF_JOB),
    Index("ix_adjustments_open", *_OF_JOB, unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
)

# Jobs that `jobsight adjust --trial` has assigned at random: ``arm`` is advice or none, ``seed`` that of the draw.
trial_jobs = Table(
    "trial_jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("submitted", Double, nullable=False),
    Column("seed", Text, nullable=False),
    Column("arm", Text, nullable=False),
    Column("assigned", Double, nullable=False),
    UniqueConstraint("cluster", "job_id", "submitted", "seed"),
)
