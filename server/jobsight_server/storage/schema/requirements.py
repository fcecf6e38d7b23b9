"""Memory requirements: the memory given to each job, its outcome, and the state learned from it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, Table, Text

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
