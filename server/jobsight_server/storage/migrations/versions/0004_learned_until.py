"""How far the model has learned is stored with it: all of what there is so far"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "learned_until",
        sa.Column("learn_seq", sa.BigInteger(), nullable=False),
        sa.Column("outcome_id", sa.BigInteger(), nullable=False),
    )
    op.execute(
        "INSERT INTO learned_until SELECT (SELECT coalesce(max(learn_seq), 0) FROM profiles), "
        "(SELECT coalesce(max(id), 0) FROM outcomes WHERE learn_seq IS NOT NULL)"
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
