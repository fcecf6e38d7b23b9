"""The server's own state: tokens, sessions, role epochs and counters."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, Table, Text

from jobsight_server.storage.schema.metadata import metadata

tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("cluster", Text),  # cluster for which an agent's token may write; null is any
    Column("nodes", Text),
    Column("user", Text),  # user whose data a token of role user reads
)

# Dashboard sessions and one-time logins, by the digest of the secret in the browser.
sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # "session" or "login"
    Column("token_id", Integer, ForeignKey("tokens.id", ondelete="CASCADE")),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("user", Text),  # user who logged in; null is the token's user, or without a token an administrator
)


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

# State of the server every few minutes, for rates and growth: bytes of the database, free bytes of its disk (NULL if on
# another machine), runs that wait for a profile, and runs ever profiled.
server_states = Table(
    "server_states",
    metadata,
    Column("time", Double, primary_key=True),
    Column("database_bytes", BigInteger, nullable=False),
    Column("free_bytes", BigInteger),
    Column("waiting", BigInteger, nullable=False),
    Column("profiled", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Owner reports over HTTP, until ranks take them in.
owner_reports = Table(
    "owner_reports",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("time", Double, nullable=False),
    Column("present", Boolean, nullable=False),
    sqlite_autoincrement=True,
)

# Receivers of the mail of a week, such as 2026-W48.
weekly_mails = Table(
    "weekly_mails",
    metadata,
    Column("user", Text, primary_key=True),
    Column("week", Text, primary_key=True),
)
