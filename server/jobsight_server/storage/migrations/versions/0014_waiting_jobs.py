"""Waiting jobs: how their forecasts move, what is changed of their requests, and trials of that"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

_OPEN = sa.text("state IN ('begun', 'undoing')")


def upgrade() -> None:
    op.create_table(
        "forecast_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("old_forecast", sa.Double(), nullable=True),
        sa.Column("new_forecast", sa.Double(), nullable=True),
        sa.Column("old_bound", sa.Double(), nullable=True),
        sa.Column("new_bound", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_forecast_changes_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forecast_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_forecast_changes_run_id"), "forecast_changes", ["run_id"])
    op.create_index(op.f("ix_forecast_changes_time"), "forecast_changes", ["time"])
    op.create_table(
        "adjustments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("submitted", sa.Double(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("parameter", sa.Text(), nullable=False),
        sa.Column("old", sa.BigInteger(), nullable=False),
        sa.Column("new", sa.BigInteger(), nullable=False),
        sa.Column("times", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("begun", sa.Double(), nullable=False),
        sa.Column("settled", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_adjustments")),
    )
    of_job = ["cluster", "job_id", "resource"]
    op.create_index(op.f("ix_adjustments_cluster_job_id_resource"), "adjustments", of_job)
    op.create_index(
        op.f("ix_adjustments_open"), "adjustments", of_job, unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN
    )
    op.create_table(
        "trial_jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("submitted", sa.Double(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("assigned", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial_jobs")),
        sa.UniqueConstraint(
            "cluster", "job_id", "submitted", "seed", name=op.f("uq_trial_jobs_cluster_job_id_submitted_seed")
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
