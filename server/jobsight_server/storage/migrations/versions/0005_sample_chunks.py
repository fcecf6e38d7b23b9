"""Readings that are some hours old are packed; the server packs the stored ones while it runs"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sample_chunks",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "first_time", name=op.f("pk_sample_chunks")),
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
