"""GPUs of jobs, and what the log says that jobs used of them"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("gpus", sa.Integer(), nullable=True))
    op.add_column("jobs", sa.Column("used", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "used")
    op.drop_column("jobs", "gpus")
