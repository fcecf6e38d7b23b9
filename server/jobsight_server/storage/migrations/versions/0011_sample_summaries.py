"""Readings that retention deletes leave a row for each hour and each day; those deleted before left none"""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns: list[sa.Column[float]] = [
        sa.Column(f"{quantity}_{part}", sa.Double(), nullable=True)
        for quantity in ("in_bps", "out_bps", "memory_used_bytes", "cpus_busy")
        for part in ("min", "mean", "max", "weight")
    ]
    op.create_table(
        "sample_summaries",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("node_id", "period", "first_time", name=op.f("pk_sample_summaries")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
