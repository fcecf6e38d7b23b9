"""Savings by account and of idle processors, how good forecasts were by day and week, and the state of the server

All totals are counted from the profiles again, the newest day first, while the server runs.
"""

import sqlalchemy as sa
from alembic import op

from jobsight_server.storage.engine import whole

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

_KEY = ("metric", "level", "period", "first_day", "group_id")


def _key(name: str) -> list[sa.schema.SchemaItem]:
    texts = [sa.Column(column, sa.Text(), nullable=False) for column in _KEY[:3]]
    numbers = [sa.Column(column, sa.Integer(), nullable=False) for column in _KEY[3:]]
    return [*texts, *numbers, sa.PrimaryKeyConstraint(*_KEY, name=op.f(f"pk_{name}"))]


def upgrade() -> None:
    op.drop_table("savings_groups")
    op.create_table(
        "savings_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("cluster", "user", "application", "queue", "account")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_savings_groups")),
        sa.UniqueConstraint(
            "cluster",
            "user",
            "application",
            "queue",
            "account",
            name=op.f("uq_savings_groups_cluster_user_application_queue_account"),
        ),
    )
    op.execute("DELETE FROM savings")
    op.create_table(
        "forecast_scores",
        *_key("forecast_scores"),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("jobs", "accuracy", "within20", "bounds", "held")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_forecast_scores_level_group_id_period_first_day"),
        "forecast_scores",
        ["level", "group_id", "period", "first_day"],
    )
    op.create_table(
        "server_states",
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("database_bytes", sa.BigInteger(), nullable=False),
        sa.Column("free_bytes", sa.BigInteger(), nullable=True),
        sa.Column("waiting", sa.BigInteger(), nullable=False),
        sa.Column("profiled", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("time", name=op.f("pk_server_states")),
        sqlite_with_rowid=False,
    )
    day = whole(op.get_bind(), 'jobs."end" / 86400.0')
    op.execute("DELETE FROM savings_to_do")
    op.execute(f"INSERT INTO savings_to_do SELECT DISTINCT {day} FROM jobs WHERE profiled")


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
