"""Migrations on the connection from ``migrate.upgrade``."""

from __future__ import annotations

from alembic import context

context.configure(**context.config.attributes)
with context.begin_transaction():
    context.run_migrations()
