"""What each accounting file has added to the tallies"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of files that are there it is not known: what they counted stays counted when they are withdrawn.
    op.add_column("accounting_files", sa.Column("counts", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("accounting_files", "counts")
