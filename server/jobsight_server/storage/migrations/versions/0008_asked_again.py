"""Forecasts are kept twice: as of a run's submission, and asked again as it starts"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("start_seq", sa.BigInteger(), nullable=True))
    # What has been learned cannot be asked again: no round is to find it.
    op.execute(sa.text("UPDATE jobs SET start_seq = forecast_seq WHERE profiled = :yes").bindparams(yes=True))
    op.create_index(op.f("ix_jobs_start_seq_start"), "jobs", ["start_seq", "start"])
    for name in ("start_forecast", "start_bound", "start_probability"):
        op.add_column("profiles", sa.Column(name, sa.Double(), nullable=True))
    op.create_table(
        "pending_at_start",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("bound", sa.Double(), nullable=True),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_pending_at_start_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_pending_at_start")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
