"""Tokens of agents that are bound to a cluster and its nodes"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Tokens that are there keep both empty: they write for any cluster, as they did.
    op.add_column("tokens", sa.Column("cluster", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("nodes", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("tokens", "nodes")
    op.drop_column("tokens", "cluster")
