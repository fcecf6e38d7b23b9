"""Facts of jobs; tasks of workflow engines are applications, so that totals by application are counted again"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("facts", sa.Text(), nullable=True))
    # CAST truncates on SQLite, which need not have floor(), and rounds on PostgreSQL.
    day = 'CAST("end" / 86400 AS INTEGER)' if op.get_bind().dialect.name == "sqlite" else 'floor("end" / 86400)'
    days = f"SELECT DISTINCT {day} AS day FROM jobs WHERE profiled"
    op.execute(f"INSERT INTO savings_to_do SELECT day FROM ({days}) AS days WHERE true ON CONFLICT DO NOTHING")


def downgrade() -> None:
    op.drop_column("jobs", "facts")
