"""How long runs were suspended"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("suspended_s", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "suspended_s")
