"""Reliability of machines"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("nodes", sa.Column("machine", sa.Text(), nullable=True))
    op.add_column("batches", sa.Column("uptime_s", sa.Double(), nullable=True))
    op.add_column("batches", sa.Column("owner_present", sa.Boolean(), nullable=True))
    op.create_index(op.f("ix_jobs_recorded_at"), "jobs", ["recorded_at"])
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"])
    op.create_table(
        "machines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("presence", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("earlier_boots", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=True),
        sa.Column("sequence", sa.BigInteger(), nullable=True),
        sa.Column("booted", sa.Double(), nullable=True),
        sa.Column("received_at", sa.Double(), nullable=True),
        sa.Column("since", sa.Double(), nullable=True),
        sa.Column("busy_processors", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("successes", sa.BigInteger(), nullable=False),
        sa.Column("evictions", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("user_failures", sa.BigInteger(), nullable=False),
        sa.Column("sessions", sa.BigInteger(), nullable=False),
        sa.Column("late_batches", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("weighted", sa.Double(), nullable=False),
        sa.Column("learned_until", sa.Double(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machines")),
        sa.UniqueConstraint("cluster", "name", name=op.f("uq_machines_cluster_name")),
    )
    op.create_index(op.f("ix_machines_version"), "machines", ["version"])
    op.create_table(
        "machine_sessions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("ending", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine_sessions")),
    )
    op.create_index(op.f("ix_machine_sessions_machine_id_end"), "machine_sessions", ["machine_id", "end"])
    op.create_table(
        "machine_outcomes",
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("work_h", sa.Double(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("machine_id", "job_id", "start", "outcome", name=op.f("pk_machine_outcomes")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_machine_outcomes_cluster_user_application_end"),
        "machine_outcomes",
        ["cluster", "user", "application", "end"],
    )
    op.create_index(op.f("ix_machine_outcomes_machine_id_end"), "machine_outcomes", ["machine_id", "end"])
    op.create_table(
        "outcomes_pending",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_outcomes_pending_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_outcomes_pending")),
    )
    op.create_table(
        "owner_reports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_owner_reports")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "reliability_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("batches_until", sa.Double(), nullable=False),
        sa.Column("jobs_until", sa.Double(), nullable=False),
        sa.Column("hazard", sa.Text(), nullable=False),
        sa.Column("hazard_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reliability_state")),
    )


def downgrade() -> None:
    for table in (
        "reliability_state",
        "owner_reports",
        "outcomes_pending",
        "machine_outcomes",
        "machine_sessions",
        "machines",
    ):
        op.drop_table(table)
    for column in ("recorded_at", "state"):
        op.drop_index(op.f(f"ix_jobs_{column}"), table_name="jobs")
    op.drop_column("batches", "owner_present")
    op.drop_column("batches", "uptime_s")
    op.drop_column("nodes", "machine")
