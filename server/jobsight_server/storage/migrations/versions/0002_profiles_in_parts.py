"""Profiles in parts, tickets, and what was forecast beside what was used"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("submitted", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("foretold", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_jobs_foretold_submitted"), "jobs", ["foretold", "submitted"], unique=False)
    for name in ("forecast", "bound", "probability"):
        op.add_column("profiles", sa.Column(name, sa.Double(), nullable=True))
    op.create_table(
        "profile_parts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "metric", "part", name=op.f("pk_profile_parts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tickets",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_tickets_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "metric", name=op.f("pk_tickets")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "failures",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("reserved", sa.Double(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failures")),
    )
    op.create_index(op.f("ix_failures_position"), "failures", ["position"], unique=False)
    op.execute("UPDATE jobs SET submitted = coalesce(queued, created, start)")
    # What would have been forecast for the runs learned so far: as it stood when the run was submitted, after all
    # that had ended until then. The background process learns them anew when it starts.
    op.execute("DELETE FROM series")
    op.execute(
        "UPDATE jobs SET foretold = coalesce((SELECT p.position FROM jobs e JOIN profiles p ON p.run_id = e.id "
        'WHERE e."end" <= jobs.submitted ORDER BY e."end" DESC LIMIT 1), 0) '
        "WHERE EXISTS (SELECT 1 FROM profiles o WHERE o.run_id = jobs.id)"
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_failures_position"), table_name="failures")
    op.drop_table("failures")
    op.drop_table("tickets")
    op.drop_table("profile_parts")
    with op.batch_alter_table("profiles") as table:
        for name in ("forecast", "bound", "probability"):
            table.drop_column(name)
    op.drop_index(op.f("ix_jobs_foretold_submitted"), table_name="jobs")
    with op.batch_alter_table("jobs") as table:
        table.drop_column("foretold")
        table.drop_column("submitted")
