"""Places offered to jobs, on nodes and in time"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_TIMES = ("requested_s", "release", "planned_start", "planned_end", "deadline")
_FIGURES = ("p_available", "p_executable", "p_success", "pos", "predicted", "charge", "penalty")


def upgrade() -> None:
    op.create_table(
        "plans",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("calibration", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_plans")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "offers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("places", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _TIMES),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _FIGURES),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_jobs", sa.Double(), nullable=False),
        sa.Column("run_times", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("offered_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_offers")),
    )
    op.create_index(op.f("ix_offers_cluster_version"), "offers", ["cluster", "version"])
    op.create_index(op.f("ix_offers_cluster_job_id"), "offers", ["cluster", "job_id"])
    op.create_index(op.f("ix_offers_state_expires_at"), "offers", ["state", "expires_at"])
    # The last jobs of a cluster, of all users: what is known of a user without any.
    op.create_index(op.f("ix_jobs_cluster_end"), "jobs", ["cluster", "end"])


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_cluster_end"), "jobs")
    for table in ("offers", "plans"):
        op.drop_table(table)
