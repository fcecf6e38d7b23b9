"""Late batches are handed over by the transaction that stores them, not looked for by when they were received"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "late_batches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("stored_at", sa.Double(), nullable=False),
        sa.Column("seen", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_late_batches")),
        sqlite_autoincrement=True,
    )
    # Those that were still to be looked at a second time.
    op.execute(
        "INSERT INTO late_batches (node_id, first_time, last_time, stored_at) "
        "SELECT node_id, first_time, last_time, received_at FROM batches WHERE received_at - first_time >= 300 "
        "AND received_at > coalesce((SELECT time FROM watermarks WHERE name = 'late samples, settled'), -1e18)"
    )
    op.drop_table("watermarks")


def downgrade() -> None:
    op.create_table(
        "watermarks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_watermarks")),
        sqlite_with_rowid=False,
    )
    op.drop_table("late_batches")
