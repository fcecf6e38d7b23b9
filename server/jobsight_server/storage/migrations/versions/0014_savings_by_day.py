"""Totals by day of what jobs requested, used and would have been reserved"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_AMOUNTS = ("weight", "requested", "used", "reserved", "request_held", "bound_held")
_COUNTS = ("request_failures", "bound_failures", "without_request", "without_use", "without_bound")


def upgrade() -> None:
    op.create_table(
        "savings_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("cluster", "user", "application", "queue")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_savings_groups")),
        sa.UniqueConstraint(
            "cluster", "user", "application", "queue", name=op.f("uq_savings_groups_cluster_user_application_queue")
        ),
    )
    op.create_table(
        "savings",
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in _AMOUNTS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS),
        sa.PrimaryKeyConstraint("metric", "level", "period", "first_day", "group_id", name=op.f("pk_savings")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "savings_to_do",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_savings_to_do")),
    )
    # The server counts the jobs of these days; from then on each job is counted as it is learned.
    # CAST truncates on SQLite, which need not have floor(), and rounds on PostgreSQL.
    day = 'CAST("end" / 86400 AS INTEGER)' if op.get_bind().dialect.name == "sqlite" else 'floor("end" / 86400)'
    op.execute(f"INSERT INTO savings_to_do SELECT DISTINCT {day} FROM jobs WHERE profiled")


def downgrade() -> None:
    for table in ("savings_to_do", "savings", "savings_groups"):
        op.drop_table(table)
