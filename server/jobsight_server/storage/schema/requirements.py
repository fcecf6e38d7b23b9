"""Memory requirements: what was asked for each job, how that ended, and what was learned from it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from jobsight_server.storage.schema.metadata import metadata

# Jobs alike, as ``requirements_group`` says: ``key`` has the fields and their values, ``question`` is the latest job as
# JSON. ``enough_bytes`` is the least that a job of the group is known to have finished with, ``freed_bytes`` what its
# finished jobs requested and were not given.
requirement_groups = Table(
    "requirement_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("requested_bytes", BigInteger, nullable=False),
    Column("asked", BigInteger, nullable=False),
    Column("finished", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("used_bytes", BigInteger),
    Column("enough_bytes", BigInteger),
    Column("freed_bytes", Double, nullable=False),
    Column("last_asked", Double, nullable=False),
    UniqueConstraint("cluster", "key"),
    Index(None, "freed_bytes"),
)

# What was asked for one submission of a job. ``outcome``: null while it is open, then finished, failed or expired.
requirements = Table(
    "requirements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("group_id", Integer, ForeignKey("requirement_groups.id"), nullable=False),
    Column("cluster", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("requested_bytes", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("asked_at", Double, nullable=False),
    Column("outcome", Text),
    Column("used_bytes", BigInteger),
    Column("ended_at", Double),
    Index(None, "group_id", "outcome", "memory_bytes"),
    Index(None, "outcome", "asked_at"),
)

# The parts of the state of an estimator (``jobsight_predictor.estimators``), as JSON. ``method`` is its name with a
# digest of the settings that the parts depend on.
requirement_state = Table(
    "requirement_state",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("method", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)
