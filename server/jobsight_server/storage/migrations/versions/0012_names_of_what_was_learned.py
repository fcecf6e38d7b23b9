"""Tables and columns of what was learned get the names by which the program knows them"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Each (table, name before, name after); a table by its new name.
_TABLES = (("profile_parts", "model_state"), ("tickets", "pending_forecasts"))
_COLUMNS = (
    ("jobs", "foretold", "forecast_seq"),
    ("profiles", "position", "learn_seq"),
    ("failures", "position", "learn_seq"),
    ("model_state", "part", "key"),
)
_CONSTRAINTS = (
    ("model_state", "pk_profile_parts", "pk_model_state"),
    ("pending_forecasts", "pk_tickets", "pk_pending_forecasts"),
    ("pending_forecasts", "fk_tickets_run_id", "fk_pending_forecasts_run_id"),
)
# Table, columns before, columns after.
_INDEXES = (
    ("jobs", ("foretold", "submitted"), ("forecast_seq", "submitted")),
    ("profiles", ("position",), ("learn_seq",)),
    ("failures", ("position",), ("learn_seq",)),
)


# Fields of an answer as it is stored: these bytes stand nowhere else in it.
_FIELDS = (('"regret":', '"mean_error":'),)


def upgrade() -> None:
    for old, new in _FIELDS:
        _rename_field(old, new)
    for old, new in _TABLES:
        op.rename_table(old, new)
    for table, old, new in _COLUMNS:
        _rename_column(table, old, new)
    for table, old, new in _CONSTRAINTS:
        _rename_constraint(table, old, new)
    for table, old_columns, new_columns in _INDEXES:
        _rename_index(table, old_columns, new_columns)


def downgrade() -> None:
    for old, new in _FIELDS:
        _rename_field(new, old)
    for table, old, new in _COLUMNS:
        _rename_column(table, new, old)
    for table, old, new in _CONSTRAINTS:
        _rename_constraint(table, new, old)
    for table, old_columns, new_columns in _INDEXES:
        _rename_index(table, new_columns, old_columns)
    for old, new in _TABLES:
        op.rename_table(new, old)


def _rename_field(old: str, new: str) -> None:
    series = sa.table("series", sa.column("answer"))
    op.execute(sa.update(series).values(answer=sa.func.replace(series.c.answer, old, new)))


def _rename_column(table: str, old: str, new: str) -> None:
    """Not by Alembic, which would copy the table on SQLite."""
    op.execute(f'ALTER TABLE {table} RENAME COLUMN "{old}" TO "{new}"')


def _rename_constraint(table: str, old: str, new: str) -> None:
    """SQLite cannot, and nothing there refers to one by name."""
    if op.get_bind().dialect.name != "sqlite":
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}")


def _rename_index(table: str, old_columns: Sequence[str], columns: Sequence[str]) -> None:
    """On SQLite it is made a second time."""
    old, new = (f"ix_{table}_{'_'.join(names)}" for names in (old_columns, columns))
    if op.get_bind().dialect.name == "sqlite":
        op.drop_index(old, table_name=table)
        op.create_index(new, table, list(columns))
    else:
        op.execute(f"ALTER INDEX {old} RENAME TO {new}")
