"""Fencing numbers, shifts that are under way, and batches in quarantine that are to be taken in again"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "role_epochs",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("role", name=op.f("pk_role_epochs")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "shifts",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("net_in_bytes", sa.BigInteger(), nullable=False),
        sa.Column("net_out_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cpu_busy_s", sa.Double(), nullable=False),
        sa.Column("gap_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "since", name=op.f("pk_shifts")),
        sqlite_with_rowid=False,
    )
    op.add_column("quarantine", sa.Column("retry", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index(op.f("ix_quarantine_bytes"), "quarantine", ["bytes"], unique=False)
    op.create_index(op.f("ix_quarantine_retry"), "quarantine", ["retry"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_quarantine_retry"), table_name="quarantine")
    op.drop_index(op.f("ix_quarantine_bytes"), table_name="quarantine")
    with op.batch_alter_table("quarantine") as table:
        table.drop_column("retry")
    op.drop_table("shifts")
    op.drop_table("role_epochs")
