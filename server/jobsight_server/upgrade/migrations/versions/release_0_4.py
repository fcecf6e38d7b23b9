"""Upgrade from release 0.3 to the declared tables.

Undeclared tables, columns and indexes are dropped, and new ones created, without a line here. Rows that move need a
line: in ``_RECREATED`` for tables whose rows the server makes again, else in ``_fill``.
"""

from __future__ import annotations

import json
from collections.abc import Hashable

import sqlalchemy as sa
from alembic import op

from jobsight_server.ground.job_names import application
from jobsight_server.ingest.earlier import convert
from jobsight_server.savings.sums.add import mark_all
from jobsight_server.storage.job_counts import count_all

revision = "0.4"
down_revision = "0.3"

# The server retrains the model on the jobs and counts savings again while it runs.
_RECREATED = frozenset({"model_state", "pending_forecasts", "running_outlooks", "savings", "savings_groups"})
_KEPT = frozenset({"alembic_version"})
_AT_ONCE = 10_000  # names of jobs
_GONE = ("fewest", "balance", "S", "F")  # objectives of matching, and coefficients of own ones


def upgrade() -> None:
    """Make the declared tables from those that are there."""
    connection, schema, present = op.get_bind(), op.get_context().opts["target_metadata"], sa.MetaData()
    present.reflect(connection)
    old = {name: present.tables[name] for name in schema.tables.keys() & present.tables.keys() - _RECREATED}
    for name, table in old.items():
        _change(table, schema.tables[name])
    schema.create_all(connection, [schema.tables[name] for name in ("boots", "readings")])
    convert(connection)
    present.drop_all(connection, [table for name, table in present.tables.items() if name not in old.keys() | _KEPT])
    schema.create_all(connection)
    _fill(connection)


def _change(old: sa.Table, new: sa.Table) -> None:
    """Bring the columns and indexes of ``old`` to those of ``new``."""
    kept = {_shape(index) for index in new.indexes} & {_shape(index) for index in old.indexes}
    for index in old.indexes:
        if _shape(index) not in kept:
            op.drop_index(index.name or "", old.name)
    for column in old.columns:
        if column.name not in new.columns:
            op.drop_column(old.name, column.name)
    for column in new.columns:
        if column.name not in old.columns:
            # From its own table: a column belongs to one.
            default = column.server_default
            op.add_column(
                old.name, sa.Column(column.name, column.type, nullable=column.nullable, server_default=default)
            )
    for index in new.indexes:
        if _shape(index) not in kept:
            index.create(op.get_bind())


def _shape(index: sa.Index) -> Hashable:
    options = (index.dialect_options[dialect]["where"] for dialect in ("sqlite", "postgresql"))
    is_partial = "where" in index.info or any(where is not None for where in options)
    return index.name, tuple(column.name for column in index.columns), bool(index.unique), is_partial


def _fill(connection: sa.Connection) -> None:
    # Rows already learned must not be queried again: no round may find them.
    connection.execute(sa.text("UPDATE jobs SET start_seq = forecast_seq WHERE profiled AND start_seq IS NULL"))
    # What a setting of earlier releases learned of shared nodes is only shown.
    shared = "attribution = 'apportioned' AND value IS NOT NULL AND NOT lower_bound"
    connection.execute(sa.text(f"UPDATE profiles SET shown_only = true WHERE {shared}"))
    peak = "SELECT value FROM profiles WHERE run_id = jobs.id AND metric = 'memory'"
    connection.execute(sa.text(f"UPDATE jobs SET peak_memory_bytes = ({peak})"))
    _name_applications(connection)
    _name_users(connection)
    for name in _GONE:
        reset = sa.text("UPDATE matching_state SET objectives = NULL WHERE objectives LIKE :named")
        connection.execute(reset, {"named": f'%"{name}"%'})
    # Counts of the answers of a route that is gone.
    connection.execute(sa.text("DELETE FROM event_counts WHERE name LIKE 'requirement_%'"))
    count_all(connection)
    mark_all(connection)


def _name_users(connection: sa.Connection) -> None:
    """Copy the users of reports from their questions."""
    reports = connection.execute(sa.text("SELECT id, question FROM outcomes")).all()
    named = [{"id": number, "name": json.loads(question)[0]} for number, question in reports]
    if named:
        connection.execute(sa.text('UPDATE outcomes SET "user" = :name WHERE id = :id'), named)


def _name_applications(connection: sa.Connection) -> None:
    # No primary key: PostgreSQL does not accept index entries above 2,704 bytes.
    connection.execute(sa.text("CREATE TEMPORARY TABLE application_of (name TEXT, application TEXT)"))
    names = connection.scalars(sa.text("SELECT DISTINCT name FROM jobs WHERE name IS NOT NULL")).all()
    rows = [{"name": name, "application": application(name)} for name in names]
    for begin in range(0, len(rows), _AT_ONCE):
        insert = sa.text("INSERT INTO application_of VALUES (:name, :application)")
        connection.execute(insert, rows[begin : begin + _AT_ONCE])
    update = "UPDATE jobs SET application = found.application FROM application_of AS found WHERE found.name = jobs.name"
    connection.execute(sa.text(update))
    connection.execute(sa.text("DROP TABLE application_of"))
