"""Runs of which the accounting log says that they ran out of memory or time; tasks of parallel jobs"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("failure", sa.Text(), nullable=True))
    op.add_column("profiles", sa.Column("lower_bound", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("failures", sa.Column("job_id", sa.Text(), nullable=True))
    op.add_column("failures", sa.Column("run_id", sa.Integer(), nullable=True))
    op.create_index(op.f("ix_failures_cluster_job_id"), "failures", ["cluster", "job_id"])
    op.create_index(op.f("ix_failures_run_id"), "failures", ["run_id"])
    op.create_table(
        "parallel_tasks",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job_id", "task", "start", name=op.f("pk_parallel_tasks")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("parallel_tasks")
    op.drop_index(op.f("ix_failures_run_id"), table_name="failures")
    op.drop_index(op.f("ix_failures_cluster_job_id"), table_name="failures")
    op.drop_column("failures", "run_id")
    op.drop_column("failures", "job_id")
    op.drop_column("profiles", "lower_bound")
    op.drop_column("jobs", "failure")
