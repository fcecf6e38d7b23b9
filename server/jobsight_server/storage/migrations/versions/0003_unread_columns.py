"""Columns of rankings that nothing read are dropped; databases of development versions of 0.2 have them"""

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table, name in (("reliability_state", "hazard_version"), ("machine_outcomes", "work_h")):
        op.execute(f"ALTER TABLE {table} DROP COLUMN {name}")  # Alembic would copy the table on SQLite


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
