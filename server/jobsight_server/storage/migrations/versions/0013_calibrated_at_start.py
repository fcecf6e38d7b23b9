"""A calibration of bounds at the start of runs; what running jobs may need in all, and how their memory grows"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("stated_exceed", "out_near_limit"):
        op.add_column("pending_at_start", sa.Column(name, sa.Double(), nullable=True))
    op.add_column("running_use", sa.Column("growth", sa.Double(), nullable=True))
    op.create_table(
        "running_outlooks",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("learned", sa.BigInteger(), nullable=False),
        sa.Column("are_limits", sa.Boolean(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_running_outlooks_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_running_outlooks")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
