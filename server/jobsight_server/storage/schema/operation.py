"""The server's own state: role epochs and counters."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table, Text

from jobsight_server.storage.schema.metadata import metadata

# How often each role was taken over (storage.fence).
role_epochs = Table(
    "role_epochs",
    metadata,
    Column("role", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Everything counted: name such as "batches_received", label such as a reason or ''.
event_counts = Table(
    "event_counts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
