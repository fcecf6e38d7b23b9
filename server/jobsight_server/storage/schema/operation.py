"""The server's own state: tokens, sessions, role epochs and counters."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, Table, Text

from jobsight_server.storage.schema.metadata import keys, metadata, required

tokens = Table(
    "tokens",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "name", "role"),
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
    *required(Double, "created", "expires"),
    Column("user", Text),  # user who logged in; null is the token's user, or without a token an administrator
)


# Findings that are left out until a time, with the reason that an administrator gave.
muted_findings = Table(
    "muted_findings",
    metadata,
    Column("key", Text, primary_key=True),
    Column("until", Double, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_with_rowid=False,
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
    *keys(Text, "name", "label"),
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
    *required(BigInteger, "waiting", "profiled"),
    sqlite_with_rowid=False,
)

# Owner reports over HTTP, until ranks take them in.
owner_reports = Table(
    "owner_reports",
    metadata,
    Column("id", Integer, primary_key=True),
    *required(Text, "cluster", "name"),
    Column("time", Double, nullable=False),
    Column("present", Boolean, nullable=False),
    sqlite_autoincrement=True,
)

# Receivers of the mail of a week, such as 2026-W48.
weekly_mails = Table(
    "weekly_mails",
    metadata,
    *keys(Text, "user", "week"),
)
