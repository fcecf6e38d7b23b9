"""Access: tokens and sessions."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, Integer, Table, Text

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
