"""Waiting jobs: moves of their forecasts, changes of their requests, and assignments in a trial."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, Table, Text, UniqueConstraint, text

from jobsight_server.storage.schema.metadata import metadata

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
