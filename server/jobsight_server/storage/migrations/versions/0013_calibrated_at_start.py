"""What the distribution alone said of a bound at a run's start is kept until the run is learned"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pending_at_start", sa.Column("stated_exceed", sa.Double(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
