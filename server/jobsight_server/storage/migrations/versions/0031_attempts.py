"""The attempts that a recommendation came with, of jobs for which it was too little"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("profiles", sa.Column("attempts", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("profiles", "attempts")
