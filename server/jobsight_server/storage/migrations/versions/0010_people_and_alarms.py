"""Logins and tokens of users; alarms

Sessions of a token of role admin, and those without a user, are an administrator's, as before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("user", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("user", sa.Text(), nullable=True))
    op.create_table(
        "alarms",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("begin_sent", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "subject", name=op.f("pk_alarms")),
    )
    op.create_table(
        "alarm_readings",
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("time", name=op.f("pk_alarm_readings")),
    )
    op.create_table(
        "monthly_mails",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("month", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("user", "month", name=op.f("pk_monthly_mails")),
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
