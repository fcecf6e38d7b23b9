"""Each part of the model has the last month in which it counts; the model is retrained"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    names = ("cluster", "metric", "key")
    op.drop_table("model_state")
    op.create_table(
        "model_state",
        *(sa.Column(name, sa.Text(), nullable=False) for name in names),
        sa.Column("until", sa.Integer()),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(*names, name=op.f("pk_model_state")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
