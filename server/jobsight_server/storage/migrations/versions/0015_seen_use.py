"""What running jobs have used so far, as evidence for others; votes at the start of runs"""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pending_at_start", sa.Column("forecasts", sa.LargeBinary(), nullable=True))
    op.create_table(
        "seen_use",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("learn_seq", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_seen_use_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", "at", name=op.f("pk_seen_use")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_seen_use_learn_seq_at"), "seen_use", ["learn_seq", "at"])


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
